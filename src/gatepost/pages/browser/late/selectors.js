// Selectors of elements.

function readSelected(node) { const option = selectAll(node, 'option[selected]', 1)[0] || selectAll(node, 'option', 1)[0]; return option ? option.$marks.value !== undefined ? option.$marks.value : collectText(option) : ''; }

// Selectors: lists, the four combinators, tags, ids, classes, attributes and the usual pseudo-classes.
const SIMPLE = /^([\w*|-]+)?((?:#(?:[\w-]|\\.|[^\x00-\x7f])+|\.(?:[\w-]|\\.|[^\x00-\x7f])+|\[[^\]]+\]|::?[\w-]+(?:\([^()]*\))?)*)$/;
const PIECE = /#((?:[\w-]|\\.|[^\x00-\x7f])+)|\.((?:[\w-]|\\.|[^\x00-\x7f])+)|\[\s*([^\]~|^$*=\s]+)\s*(?:([~|^$*]?)=\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]*))\s*[is]?)?\]|::?([\w-]+)(?:\(([^()]*)\))?/g;
function matchesSimple(node, text) {
  const match = SIMPLE.exec(text);
  if (!match) return false;
  if (match[1] && match[1] !== '*' && match[1].toLowerCase().replace(/^.*\|/, '') !== node.localName) return false;
  if (match[2]) for (const piece of match[2].matchAll(PIECE)) {
    if (piece[1] !== undefined) { if (node.$marks.id !== piece[1].replace(/\\/g, '')) return false; }
    else if (piece[2] !== undefined) { if ((' ' + (node.$marks.class || '').replace(/\s/g, ' ') + ' ').indexOf(' ' + piece[2].replace(/\\/g, '') + ' ') < 0) return false; }
    else if (piece[3] !== undefined) {
      const have = node.$marks[piece[3].toLowerCase()], want = piece[5] !== undefined ? piece[5] : piece[6] !== undefined ? piece[6] : piece[7];
      if (have === undefined) return false;
      if (want === undefined) continue;
      const how = piece[4];
      if (!(how === '' ? have === want : how === '^' ? have.startsWith(want) : how === '$' ? have.endsWith(want) : how === '*' ? have.includes(want) : (' ' + have + ' ').includes(' ' + want + ' ') || have.startsWith(want + '-'))) return false;
    } else if (!matchesPseudo(node, piece[8], piece[9])) return false;
  }
  return true;
}
function matchesPseudo(node, name, given) {
  const among = node.parentNode ? node.parentNode.$list.filter(each => each.nodeType === 1) : [node];
  switch (name) {
    case 'first-child': return among[0] === node;
    case 'last-child': return among[among.length - 1] === node;
    case 'only-child': return among.length === 1;
    case 'nth-child': return given === 'odd' ? among.indexOf(node) % 2 === 0 : given === 'even' ? among.indexOf(node) % 2 === 1 : among[+given - 1] === node;
    case 'first-of-type': return among.filter(each => each.localName === node.localName)[0] === node;
    case 'nth-of-type': return among.filter(each => each.localName === node.localName)[+given - 1] === node;
    case 'not': return !matchesSimple(node, given.trim());
    case 'is': case 'where': return given.split(',').some(each => matchesSimple(node, each.trim()));
    case 'empty': return node.$list.length === 0;
    case 'checked': return 'checked' in node.$marks;
    case 'disabled': return 'disabled' in node.$marks;
    case 'hover': case 'focus': case 'active': return false;
    default: return true;
  }
}
const SPLIT = /\s*([>+~])\s*|\s+/;
function matchesSelector(node, text) {
  const parts = text.split(SPLIT).map(each => each === undefined ? ' ' : each).filter(each => each !== '');
  if (!parts.length || !matchesSimple(node, parts[parts.length - 1])) return false;
  for (let i = parts.length - 2; i > 0; i -= 2) {
    const how = parts[i], wanted = parts[i - 1];
    if (how === '>') { node = node.parentNode; if (!node || node.nodeType !== 1 || !matchesSimple(node, wanted)) return false; }
    else if (how === '+') { node = node.previousElementSibling; if (!node || !matchesSimple(node, wanted)) return false; }
    else if (how === '~') { do node = node.previousElementSibling; while (node && !matchesSimple(node, wanted)); if (!node) return false; }
    else { do node = node.parentNode; while (node && node.nodeType === 1 && !matchesSimple(node, wanted)); if (!node || node.nodeType !== 1) return false; }
  }
  return true;
}
let selectorWork = 0;
function selectAll(root, text, most) {
  const found = [], choices = text.split(/,(?![^(\[]*[)\]])/).map(each => each.trim()).filter(each => each);
  const only = choices.length === 1 && /^#[\w-]+$/.test(choices[0]) && root === document ? findById(root, choices[0].slice(1)) : null;
  if (only) return [only];
  visit(root, node => {
    if (node.nodeType !== 1) return true;
    if (++selectorWork > 400000) return false;
    for (const each of choices) if (matchesSelector(node, each)) { found.push(node); break; }
    return !(most && found.length >= most);
  });
  return found;
}
const collectionMembers = { item(place) { return this[place] || null; }, namedItem(name) { return this.find(each => each.$marks.id === name || each.$marks.name === name) || null; } };
function makeCollection(list) {
  for (const each of list) { const key = each.$marks && (each.$marks.name || each.$marks.id); if (key && !(key in list)) hide(list, key, each); }
  return Object.assign(list, collectionMembers);
}
