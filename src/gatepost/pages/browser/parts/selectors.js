// Selectors of elements.

function readSelected(node) { const option = selectAll(node, 'option[selected]', 1)[0] || selectAll(node, 'option', 1)[0]; return option ? option.$marks.value !== undefined ? option.$marks.value : collectText(option) : ''; }

// Selectors: lists, the four combinators, tags, ids, classes, attributes and the usual pseudo-classes. Each text is read
// once: into choices, which are steps from the last one on, which are a combinator and tests of one element.
const PIECE = /\s*([>+~])\s*|(\s+)|#((?:[\w-]|\\.|[^\x00-\x7f])+)|\.((?:[\w-]|\\.|[^\x00-\x7f])+)|\[\s*([^\]~|^$*=\s]+)\s*(?:([~|^$*]?)=\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]*))\s*([is])?\s*)?\]|::?([\w-]+)(?:\(((?:[^()]|\([^()]*\))*)\))?|((?:[\w*|-]|[^\x00-\x7f])+)/y;
const readSelectors = new NativeMap();
function readSelector(text) {
  const known = readSelectors.get(text);
  if (known !== undefined) return known;
  const made = [];
  for (let i = 0, start = 0, depth = 0; i <= text.length; i++) {
    const sign = text[i];
    if (sign === '(' || sign === '[') depth++;
    else if (sign === ')' || sign === ']') depth--;
    else if (sign === undefined || (sign === ',' && depth === 0)) { const steps = readChoice(text.slice(start, i).trim()); if (steps) made[made.length] = steps; start = i + 1; }
  }
  if (readSelectors.size < 300) readSelectors.set(text, made);
  return made;
}
function readChoice(text) {
  let step = { how: '', tests: [] };
  const steps = [step];
  let place = 0;
  while (place < text.length) {
    PIECE.lastIndex = place;  // a selector inside of another one is read meanwhile
    const [all, how, gap, id, name, key, compare, quoted, single, bare, letters, pseudo, given, tagName] = PIECE.exec(text) || [];
    if (!all) return null;
    place += all.length;
    if (how || gap) { steps[steps.length] = step = { how: how || ' ', tests: [] }; continue; }
    const test = id !== undefined ? testId(id.replace(/\\/g, '')) : name !== undefined ? testClass(name.replace(/\\/g, '')) : pseudo ? testPseudo(pseudo.toLowerCase(), given === undefined ? '' : given.trim())
      : key !== undefined ? testMark(key.toLowerCase(), compare, quoted !== undefined ? quoted : single !== undefined ? single : bare, letters) : testTag(tagName.toLowerCase().replace(/^.*\|/, ''));
    if (test) step.tests[step.tests.length] = test;
  }
  return text ? steps : null;
}
const testTag = name => name === '*' ? null : node => node.localName === name;
const testId = id => node => node.$marks.id === id;
const testClass = name => node => { const have = node.$marks.class; return have !== undefined && (have === name || (' ' + have.replace(/\s/g, ' ') + ' ').indexOf(' ' + name + ' ') >= 0); };
const testMark = (key, how, want, letters) => node => {
  let have = node.$marks[key];
  if (have === undefined || want === undefined) return have !== undefined;
  if (letters === 'i') { have = have.toLowerCase(); want = want.toLowerCase(); }
  return how === '' ? have === want : how === '^' ? have.startsWith(want) : how === '$' ? have.endsWith(want) : how === '*' ? have.includes(want) : how === '|' ? have === want || have.startsWith(want + '-') : (' ' + have + ' ').includes(' ' + want + ' ');
};
const elementsBeside = (node, name) => (node.parentNode ? node.parentNode.$list : [node]).filter(each => each.nodeType === 1 && (!name || each.localName === name));
const testPlace = (given, ofType, fromEnd) => {
  const match = given === 'odd' ? ['', '2', '1'] : given === 'even' ? ['', '2', '0'] : /^([+-]?\d*)n\s*([+-]?\s*\d+)?$/.exec(given);
  const step = match ? match[1] === '' || match[1] === '+' ? 1 : match[1] === '-' ? -1 : +match[1] : 0, first = match ? +toText(match[2] || 0).replace(/\s/g, '') : +given;
  return node => {
    const beside = elementsBeside(node, ofType ? node.localName : ''), index = beside.indexOf(node), place = fromEnd ? beside.length - index : index + 1;
    return step ? (place - first) % step === 0 && (place - first) / step >= 0 : place === first;
  };
};
const isFirst = testPlace('1'), isLast = testPlace('1', false, true);
function testPseudo(name, given) {
  const nth = /^nth-(last-)?(child|of-type)$/.exec(name), choices = name === 'not' || name === 'is' || name === 'where' || name === 'matches' ? readSelector(given) : null;
  if (nth) return testPlace(given, nth[2] === 'of-type', !!nth[1]);
  if (choices) return name === 'not' ? node => !matchesChoices(node, choices) : node => matchesChoices(node, choices);
  switch (name) {
    case 'first-child': return isFirst;
    case 'last-child': return isLast;
    case 'only-child': return node => isFirst(node) && isLast(node);
    case 'first-of-type': return testPlace('1', true);
    case 'last-of-type': return testPlace('1', true, true);
    case 'has': return node => selectAll(node, given.replace(/^[>+~]\s*/, ''), 1).length > 0;
    case 'root': return node => node === document.documentElement;
    case 'empty': return node => node.$list.length === 0;
    case 'checked': return node => 'checked' in node.$marks || 'selected' in node.$marks;
    case 'disabled': return node => 'disabled' in node.$marks;
    case 'enabled': return node => !('disabled' in node.$marks);
    case 'hover': case 'focus': case 'active': case 'target': return () => false;
    default: return null;
  }
}
function passes(node, step) {
  const tests = step.tests;
  for (let i = 0; i < tests.length; i++) if (!tests[i](node)) return false;
  return true;
}
function matchesSteps(node, steps) {
  let place = steps.length - 1;
  if (!passes(node, steps[place])) return false;
  for (; place > 0; place--) {
    const how = steps[place].how, wanted = steps[place - 1];
    if (how === '>') { node = node.parentNode; if (!node || node.nodeType !== 1 || !passes(node, wanted)) return false; }
    else if (how === '+') { node = node.previousElementSibling; if (!node || !passes(node, wanted)) return false; }
    else if (how === '~') { do node = node.previousElementSibling; while (node && !passes(node, wanted)); if (!node) return false; }
    else { do node = node.parentNode; while (node && node.nodeType === 1 && !passes(node, wanted)); if (!node || node.nodeType !== 1) return false; }
  }
  return true;
}
function matchesChoices(node, choices) {
  for (let i = 0; i < choices.length; i++) if (matchesSteps(node, choices[i])) return true;
  return false;
}
function matchesSelector(node, text) { return matchesChoices(node, readSelector(text)); }
let selectorWork = 0;
function selectAll(root, text, most) {
  const only = root === document && text[0] === '#' && /^#[\w-]+$/.test(text) ? findById(root, text.slice(1)) : null;
  if (only) return [only];
  const found = [], choices = readSelector(text);
  visit(root, node => {
    if (node.nodeType !== 1) return true;
    if (++selectorWork > 400000) return false;
    if (matchesChoices(node, choices)) found.push(node);
    return !(most && found.length >= most);
  });
  return found;
}
const collectionMembers = { item(place) { return this[place] || null; }, namedItem(name) { return this.find(each => each.$marks.id === name || each.$marks.name === name) || null; } };
function makeCollection(list) {
  for (const each of list) { const key = each.$marks && (each.$marks.name || each.$marks.id); if (key && !(key in list)) hide(list, key, each); }
  return Object.assign(list, collectionMembers);
}
