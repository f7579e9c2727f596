// Styles, classes and data of elements.

// Styles: what is set is kept; custom properties of sheets are known to getComputedStyle.
const customProperties = makeObject(null), contentRules = [];
function readSheet(text) {
  for (const match of toText(text).slice(0, 2000000).matchAll(/(--[\w-]+)\s*:\s*([^;}]*)/g)) if (!(match[1] in customProperties)) customProperties[match[1]] = match[2].trim();
  for (const match of toText(text).slice(0, 2000000).matchAll(/([^{}]{1,300})\{([^{}]*)\}/g)) if (contentRules.length < 300) contentRules.push([match[1].trim(), match[2]]);
}
const toDashes = name => name.replace(/[A-Z]/g, letter => '-' + letter.toLowerCase());
function makeStyle(text) {
  const kept = makeObject(null);
  const read = css => { for (const match of toText(css).matchAll(/([\w-]+)\s*:\s*((?:[^;"']|"[^"]*"|'[^']*')*)/g)) kept[match[1].toLowerCase()] = match[2].trim(); };
  read(text);
  const members = { setProperty(name, value) { kept[toText(name)] = toText(value); }, getPropertyValue: name => kept[toText(name)] || '', removeProperty(name) { const old = kept[name] || ''; delete kept[name]; return old; },
    getPropertyPriority: () => '', item: place => keysOf(kept)[place] || '' };
  return new NativeProxy(members, {
    get: (_, key) => typeof key === 'symbol' ? undefined : key in members ? members[key] : key === 'cssText' ? keysOf(kept).map(name => name + ': ' + kept[name] + ';').join(' ') : key === 'length' ? keysOf(kept).length : kept[toDashes(key)] || '',
    set: (_, key, value) => { if (key === 'cssText') { for (const name of keysOf(kept)) delete kept[name]; read(value); } else if (typeof key !== 'symbol') kept[toDashes(key)] = toText(value); return true; },
    has: (_, key) => typeof key === 'string', ownKeys: () => ['setProperty', 'getPropertyValue', 'removeProperty', 'getPropertyPriority', 'item'] });
}
// The rules of a style sheet, as a script reads them.
function makeSheet(node) {
  const rules = [];
  for (const match of collectText(node).slice(0, 2000000).matchAll(/([^{}]{1,2000})\{([^{}]*)\}/g)) {
    if (rules.length >= 500) break;
    rules.push({ type: 1, selectorText: match[1].trim(), cssText: match[1].trim() + ' { ' + match[2].trim() + ' }', style: makeStyle(match[2]), conditionText: match[1], name: match[1].trim().replace(/^@\S+\s*/, '') });
  }
  return { cssRules: rules, rules, ownerNode: node, disabled: false, insertRule(text) { const match = /([^{}]*)\{([^{}]*)\}/.exec(toText(text)); if (match) rules.unshift({ selectorText: match[1].trim(), cssText: toText(text), style: makeStyle(match[2]) }); return 0; }, deleteRule() {} };
}
let sheetPlace = 0;
function computeStyle(node, pseudo) {
  while (sheetPlace < sheets.length) readSheet(sheets[sheetPlace++]);
  const own = makeObject(null);
  for (const [selector, body] of contentRules) {
    const bare = pseudo ? selector.replace(/::?(?:before|after)/, '') : selector;
    if (pseudo && bare === selector) continue;
    let fits = false;
    try { fits = node && node.matches && (bare === ':root' || bare === 'html' || bare === '' || node.matches(bare)); } catch (fault) { /* a selector that is not read */ }
    if (fits) for (const match of body.matchAll(/([\w-]+)\s*:\s*((?:[^;"']|"[^"]*"|'[^']*')*)/g)) own[match[1].toLowerCase()] = match[2].trim();
  }
  const read = name => {
    name = toDashes(toText(name));
    const inline = node && node.style ? node.style.getPropertyValue(name) : '';
    if (inline && !pseudo) return inline;
    if (name in own) return own[name];
    if (name in customProperties) return customProperties[name];
    return name === 'display' ? 'block' : name === 'visibility' ? 'visible' : name === 'opacity' ? '1' : name === 'font-size' ? '16px' : '';
  };
  return new NativeProxy({ getPropertyValue: read }, { get: (target, key) => typeof key === 'symbol' ? undefined : key === 'getPropertyValue' ? read : key === 'length' ? 0 : read(key) });
}
function makeDataset(node) {
  return new NativeProxy({}, {
    get: (_, key) => typeof key === 'symbol' ? undefined : node.$marks['data-' + toDashes(key)],
    set: (_, key, value) => { node.$marks['data-' + toDashes(toText(key))] = toText(value); return true; },
    has: (_, key) => typeof key === 'string' && 'data-' + toDashes(key) in node.$marks,
    ownKeys: () => keysOf(node.$marks).filter(name => name.startsWith('data-')).map(name => name.slice(5).replace(/-(.)/g, (_, letter) => letter.toUpperCase())),
    getOwnPropertyDescriptor: (_, key) => ({ value: node.$marks['data-' + toDashes(key)], enumerable: true, configurable: true, writable: true }) });
}
function makeClassList(node) {
  const read = () => (node.$marks.class || '').split(/\s+/).filter(each => each);
  const write = all => { node.$marks.class = all.join(' '); };
  const list = read();
  return Object.assign(list, { add(...names) { write([...new Set([...read(), ...names])]); }, remove(...names) { write(read().filter(each => names.indexOf(each) < 0)); },
    contains: name => read().indexOf(name) >= 0, toggle(name, force) { const has = read().indexOf(name) >= 0, want = force === undefined ? !has : !!force; if (want) this.add(name); else this.remove(name); return want; },
    replace(old, name) { this.remove(old); this.add(name); }, item: place => read()[place] || null, get value() { return node.$marks.class || ''; } });
}
