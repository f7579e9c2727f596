// Modules.

// Modules have no loader here: what they export is put together by a function.
const EXPORT = /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(^|[;{}\n\s])export\s+(default\s+|const\s+|let\s+|var\s+|function\s*\*?\s*|async\s+function\s+|class\s+)?([\w$]*)?/g;
const STATIC_IMPORT = /(^|[;\n}])\s*import(?=[\s{*"'])\s*(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\}|\*\s*as\s+([\w$]+))?\s*(?:from)?\s*(["'])((?:(?!\5).)*)\5/g;
function mapAddress(address) {
  for (const node of selectAll(document, 'script')) {
    if ((node.$marks.type || '').trim().toLowerCase() !== 'importmap') continue;
    let names;
    try { names = parseJson(collectText(node)).imports; } catch (fault) { continue; }
    if (!names || typeof names !== 'object') continue;
    if (hasOwn(names, address)) return toText(names[address]);
    for (const name of keysOf(names)) if (name.endsWith('/') && address.startsWith(name)) return toText(names[name]) + address.slice(name.length);
  }
  return address;
}
function loadModule(text) {
  note('code', 'module', text);
  const names = [];
  const list = (inside, other) => inside.split(',').map(each => each.trim().split(/\s+as\s+/)).filter(each => each[0]).map(each => other(each[0], each[1] || each[0]));
  let body = prepareCode(text).replace(STATIC_IMPORT, (all, before, name, inside, space, quote, address) => {
    const from = 'await __importData(' + quote + address + quote + ')';
    if (space) return before + (name ? 'const ' + space + '=' + from + ',' + name + '=' + space + '.default' : 'const ' + space + '=' + from);
    const wanted = [...(name ? ['default:' + name] : []), ...(inside ? list(inside, (one, other) => one + ':' + other) : [])];
    return before + (wanted.length ? 'const {' + wanted.join(',') + '}=' + from : from);
  }).replace(/(^|[;}\n])\s*export\s*\{([^}]*)\}(?!\s*from)/g, (all, before, inside) => before + list(inside, (one, other) => 'exports.' + other + '=' + one).join(';')).replace(EXPORT, (all, literal, before, kind, name) => {
    if (literal) return literal;
    kind = kind || '';
    if (kind.startsWith('default')) return before + 'exports.default = ' + (name || '');
    if (name && kind) names.push(name);
    return kind ? before + kind + (name || '') : before + 'void ' + (name || '');
  }).replace(/\bimport\.meta\b/g, '({url:""})');
  body += ';' + names.map(name => 'try{exports.' + name + '=' + name + '}catch(e){}').join(';');
  const exports = {};
  try {
    const run = new AsyncFunction('exports', body);
    const promise = run(exports);
    watch(promise, () => addTask(() => watch(run(exports), () => undefined)));
    return apply(nativeThen, promise, [() => exports]);
  } catch (fault) { noteError(fault); return rejected(fault); }
}
