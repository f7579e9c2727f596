// Conditions of a page, opened: what it does only where it believes that a person is looking.
//
// A page can ask anything of a browser, and a stand-in answers some of it wrongly. So scripts are written anew with a
// call around each condition, and a fault at the end of each `try`. They run once as they are. Conditions that had one
// outcome only get the other one in the runs that follow: a body that is entered, a `return` that is not taken.

const GATE = 'if while', EXIT = /\s*\{?\s*(?:return|throw|break|continue)\b/y, SPACE = /[\s\ufeff]+/y, WORD = /[\w$\u0080-\uffff]+/y;
const SIGN = /=>|===|!==|[=!<>]=|\?\?=|\?\?|\?\.(?!\d)|&&=|\|\|=|&&|\|\||>>>=|>>=|<<=|\*\*=|[-+*\/%&|^]=|\+\+|--|[^]/y;
const PATTERN = /\/(?![*\/])(?:[^\\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.){0,400}\]){1,2000}\/\w{0,8}/y;
const BEGINS = { __proto__: null, return: 1, throw: 1, case: 1, else: 1, do: 1, yield: 1, default: 1 };
const OPENS = { __proto__: null, ';': 1, ',': 1, '=': 1, '=>': 1, '?': 1, ':': 1, '&&': 1, '||': 1, '??': 1, '+=': 1, '-=': 1, '|=': 1, '&=': 1, '^=': 1, '...': 1 };
const MAX_GATED = 120000, MAX_SITES = 4000, MOST_TIMES = 2;

function matchAt(pattern, text, place) { pattern.lastIndex = place; const found = pattern.exec(text); return found ? found[0] : ''; }
function endOfString(text, place) {
  const quote = text[place];
  for (let at = place + 1; ;) {
    const end = text.indexOf(quote, at), slash = text.indexOf('\\', at);
    if (end < 0) return text.length;
    if (slash < 0 || slash > end) return end + 1;
    at = slash + 2;
  }
}

// Return a script with its conditions in calls of `__gate`; as it is where it is too long.
function writeGates(source) {
  if (source.length > MAX_GATED || (source.indexOf('if') < 0 && source.indexOf('&&') < 0 && source.indexOf('?') < 0 && source.indexOf('||') < 0 && source.indexOf('catch') < 0)) return source;
  const inserted = [], base = source.length * 8192;
  let level = { sign: '', word: '', from: 0, head: 0, sites: [] }, place = 0, before = '', beforeAt = 0, isOperand = false, sites = 0, isNewLine = false;
  const levels = [];
  const wrap = (from, to, kind) => {
    if (from < 0 || sites >= MAX_SITES || !source.slice(from, to).trim()) return;
    sites++;
    inserted.push([from, 1, '__gate(' + (base + sites) + ',"' + kind + '",('], [to, 0, '))']);
  };
  while (place < source.length) {
    const start = place, first = source[place];
    const space = matchAt(SPACE, source, place);
    if (space) { place += space.length; isNewLine = isNewLine || space.indexOf('\n') >= 0; continue; }
    if (first === '/' && source[place + 1] === '/') { const end = source.indexOf('\n', place); place = end < 0 ? source.length : end; continue; }
    if (first === '/' && source[place + 1] === '*') { const end = source.indexOf('*/', place + 2); place = end < 0 ? source.length : end + 2; continue; }
    let token, isWord = false, isValue = false;
    if (first === '"' || first === "'" || first === '`') { place = endOfString(source, place); token = first; isValue = true; }
    else if (first === '/' && !isOperand && (token = matchAt(PATTERN, source, place))) { place += token.length; token = '/'; isValue = true; }
    else if ((token = matchAt(WORD, source, place))) { place += token.length; isWord = true; isValue = !(token in BEGINS) && !/^(?:in|of|typeof|instanceof|new|delete|void|await|if|while|for|var|let|const)$/.test(token); }
    else { token = matchAt(SIGN, source, place); place += token.length; }
    // A line that ends a statement without a sign of its own.
    if (isNewLine && isOperand && (isWord || token === '"' || token === "'" || token === '`') && token !== 'in' && token !== 'of' && token !== 'instanceof' && token !== 'catch' && token !== 'finally') level.from = start;
    isNewLine = false;
    const wasOperand = isOperand;
    isOperand = isValue;
    if (isWord) {
      if (before === '.' || before === '?.') isOperand = true;
      else if (token === 'catch' && before === '}') { if (sites++ < MAX_SITES) inserted.push([beforeAt, 0, ';__fault(' + (base + sites) + ');']); }
      else if (token in BEGINS || ((token === 'in' || token === 'of') && level.word === 'for')) level.from = place;
      if (before === '}' && level.from < 0) level.from = start;
    } else if (token === '(' || token === '[' || token === '{') {
      if (before === '}' && token !== '{' && level.from === beforeAt + 1) level.from = -1;
      levels.push(level);
      level = { sign: token, word: token === '(' && !wasOperand || before === 'if' || before === 'while' || before === 'for' ? before : '', from: place, head: place };
      isOperand = false;
    } else if (token === ')' || token === ']' || token === '}') {
      const closed = level;
      if (levels.length) level = levels.pop();
      isOperand = token !== '}';
      if (token === ')' && (closed.word === 'if' || closed.word === 'while')) { wrap(closed.head, start, matchAt(EXIT, source, place) ? 'x' : 'p'); level.from = place; isOperand = false; }
      else if (token === ')' && (closed.word === 'for' || closed.word === 'with' || closed.word === 'switch')) { level.from = place; isOperand = false; }
      else if (token === '}') level.from = place;
    } else if (token === '&&' || token === '||' || token === '?') {
      if (before === '}' && level.from === beforeAt + 1) level.from = -1;
      wrap(level.from, start, token === '&&' ? 'p' : token === '?' ? 't' : 'o');
      level.from = place;
    } else if (token in OPENS) level.from = place;
    else if (before === '}' && level.from === beforeAt + 1) level.from = -1;
    before = token; beforeAt = start;
  }
  if (!inserted.length) return source;
  inserted.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let made = '', at = 0;
  for (const [where, , text] of inserted) { made += source.slice(at, where) + text; at = where; }
  return made + source.slice(at);
}

// What each condition was so far: 1 for false, 2 for true. `forcing` is 0 while that is learnt.
const outcomes = new NativeMap(), turned = new NativeMap();
let forcing = 0, taught = outcomes;
function gate(site, kind, value) {
  const known = outcomes.get(site) || 0, given = value ? 2 : 1;
  if (forcing && taught.get(site) === given && (known === given)) {
    // Of a condition that leads out, and of an alternative, the false one goes on; of others the true one.
    const wanted = kind === 'x' || kind === 'o' ? 1 : kind === 't' ? 3 - given : forcing > 1 ? 3 - given : 2;
    const times = turned.get(site) || 0;
    if (wanted !== given && times < (kind === 'x' ? 50 : MOST_TIMES)) { turned.set(site, times + 1); return wanted === 2; }
  }
  outcomes.set(site, known | given);
  return value;
}
function fault(site) {
  const times = turned.get(site) || 0;
  if (forcing && times < 1) { turned.set(site, times + 1); throw new TypeError('Failed to execute'); }
}
function openGates() {
  give(window, { __gate: gate, __fault: fault });
  const then = nativeThen;
  give(NativePromise.prototype, { then(call, other) {
    if (forcing && typeof other === 'function') addTask(() => other(new TypeError('Failed to fetch')));
    return apply(then, this, [call, other]);
  } });
  define(window, 'eval', { configurable: true, writable: true, value: text => typeof text === 'string' ? nativeEval(prepareCode(text)) : text });
}
function forceGates(round) { forcing = round; taught = new NativeMap(outcomes); turned.clear(); }
