// Objects of the window, each made when a page first asks for it.

function makeStorage() {
  const kept = makeObject(null);
  return new NativeProxy({}, { get: (_, key) => key === 'getItem' ? name => name in kept ? kept[name] : null : key === 'setItem' ? (name, value) => { kept[name] = toText(value); } : key === 'removeItem' ? name => { delete kept[name]; } : key === 'clear' ? () => { for (const name of keysOf(kept)) delete kept[name]; } : key === 'key' ? place => keysOf(kept)[place] || null : key === 'length' ? keysOf(kept).length : kept[key], set: (_, key, value) => { kept[key] = toText(value); return true; } });
}

// An observer is told once: what has changed since it began to observe, and that its target can be seen.
class MutationObserver {
  constructor(call) { hide(this, 'call', call); }
  observe(target, given) {
    const call = this.call, before = new Set(), marks = target && target.$marks ? Object.assign(makeObject(null), target.$marks) : null, text = target && target.data;
    if (target && target.$list) visit(target, node => { before.add(node); });
    addTask(() => {
      const record = { target, isIntersecting: true, intersectionRatio: 1, type: 'childList', addedNodes: [], removedNodes: [], attributeName: null, oldValue: null, contentRect: { width: 300, height: 40 }, boundingClientRect: { top: 0 } }, records = [];
      if (target && target.$list) visit(target, node => { if (!before.has(node) && record.addedNodes.length < 500 && (node.parentNode === target || given && given.subtree)) record.addedNodes.push(node); });
      if (marks) for (const name of keysOf(target.$marks)) if (marks[name] !== target.$marks[name]) records.push({ ...record, addedNodes: [], type: 'attributes', attributeName: name, oldValue: marks[name] === undefined ? null : marks[name] });
      if (target && target.data !== text) records.push({ ...record, type: 'characterData', oldValue: text });
      call(records.length && !record.addedNodes.length ? records : [record, ...records], this);
    });
  }
  unobserve() {}
  disconnect() {}
  takeRecords() { return []; }
}

class DOMParser { parseFromString(html) { return parseDocument(html); } }
function parseDocument(html) { const made = new Document(); html = toText(html); readMarkup(/<html/i.test(html) ? html : '<html><head></head><body>' + html + '</body></html>', made, false); return made; }

class XMLSerializer { serializeToString(node) { return node && node.nodeType === 1 ? writeElement(node, 0) : node && node.$list ? writeMarkup(node, 0) : ''; } }

const randomBytes = view => { for (let i = 0; i < view.length; i++) view[i] = random() * 256; return view; };
const decrypts = () => { note('decrypts', trigger); return resolved(viewOf(SECRET).buffer); };
function makeClock() {
  const clock = {};
  give(clock, { now: () => readClock() - startOfPage, mark() {}, measure() {}, getEntriesByType: type => type === 'navigation' ? [{ name: PAGE, entryType: 'navigation', type: 'navigate', duration: 120, startTime: 0, domComplete: 90, loadEventEnd: 120, responseStart: 4, transferSize: 0, redirectCount: 0 }] : [], getEntriesByName: () => [], clearMarks() {}, clearMeasures() {} });
  hide(clock, 'timing', { navigationStart: startOfPage, loadEventEnd: startOfPage + 120, domContentLoadedEventEnd: startOfPage + 90 });
  hide(clock, 'timeOrigin', startOfPage);
  hide(clock, 'memory', { jsHeapSizeLimit: 4294705152, totalJSHeapSize: 12000000, usedJSHeapSize: 9000000 });
  hide(clock, 'navigation', { type: 0, redirectCount: 0 });
  return clock;
}
const WINDOW_OBJECTS = {
  screen: () => ({ width: 1920, height: 1080, availWidth: 1920, availHeight: 1040, colorDepth: 24, pixelDepth: 24, orientation: { type: 'landscape-primary', addEventListener() {} } }),
  history: () => ({ length: 2, state: null, scrollRestoration: 'auto', pushState(state) { this.state = state; }, replaceState(state) { this.state = state; }, back() {}, forward() {}, go() {} }),
  customElements: () => ({ define(name, made) { customs.set(toText(name).toLowerCase(), made); for (const node of selectAll(document, toText(name))) callCustom(node, made); }, get: name => customs.get(name), whenDefined: () => resolved(), upgrade() {} }),
  chrome: () => ({ runtime: {}, app: {} }),
  external: () => ({}),
  styleMedia: () => ({ type: 'screen' }),
  visualViewport: () => ({ width: 1280, height: 720, scale: 1, addEventListener() {} }),
  trustedTypes: () => ({ createPolicy: (name, rules) => ({ createHTML: text => rules && rules.createHTML ? rules.createHTML(text) : text, createScript: text => rules && rules.createScript ? rules.createScript(text) : text, createScriptURL: text => rules && rules.createScriptURL ? rules.createScriptURL(text) : text }) }),
  CSS: () => ({ supports: () => true, escape: toText, registerProperty() {} }),
  scheduler: () => ({ postTask(work) { addTask(work); return resolved(); }, yield: () => resolved() }),
  Intl: () => { const made = makeAnything('Intl'); const own = { __proto__: null, Segmenter: function () { this.segment = text => slice([...toText(text)]).map((segment, index) => ({ segment, index, isWordLike: true })); },
    DateTimeFormat: function () { return { format: date => toText(date), formatToParts: () => [], resolvedOptions: () => ({ locale: 'en-US', timeZone: 'Europe/Berlin', calendar: 'gregory', numberingSystem: 'latn' }) }; } };
    return new NativeProxy({}, { get: (_, key) => own[key] || made[key], has: () => true }); },
  localStorage: makeStorage, sessionStorage: makeStorage, performance: makeClock,
  speechSynthesis: () => makeAnything('speech'), indexedDB: () => makeDatabase(), caches: () => makeCaches(), cookieStore: () => makeAnything('cookieStore'),
  NodeFilter: () => ({ SHOW_ALL: 0xffffffff, SHOW_ELEMENT: 1, SHOW_TEXT: 4, SHOW_COMMENT: 128, FILTER_ACCEPT: 1, FILTER_REJECT: 2, FILTER_SKIP: 3 }),
  XPathResult: () => ({ ANY_TYPE: 0, STRING_TYPE: 2, FIRST_ORDERED_NODE_TYPE: 9, ORDERED_NODE_SNAPSHOT_TYPE: 7, UNORDERED_NODE_SNAPSHOT_TYPE: 6, ORDERED_NODE_ITERATOR_TYPE: 5 }),
  crypto: () => ({ getRandomValues: randomBytes, randomUUID: () => '36b8f84d-df4e-4d49-b662-bcde71a8764f', subtle: { decrypt: () => decrypts(), encrypt: () => resolved(new Buffer(16)), importKey: () => resolved({}), deriveKey: () => resolved({}), deriveBits: () => resolved(new Buffer(32)), digest: () => resolved(new Buffer(32)), generateKey: () => resolved({}), exportKey: () => resolved(new Buffer(32)), sign: () => resolved(new Buffer(32)), verify: () => resolved(true) } }),
  WebAssembly: () => ({ instantiate() { note('wasm', ''); return resolved({ instance: { exports: makeAnything('wasm') }, module: {} }); }, compile() { note('wasm', ''); return resolved({}); }, instantiateStreaming() { note('wasm', ''); return resolved({ instance: { exports: makeAnything('wasm') } }); }, compileStreaming: () => resolved({}), validate: () => true,
  Module: function () { note('wasm', ''); }, Instance: function () { this.exports = makeAnything('wasm'); }, Memory: function () { this.buffer = new Buffer(65536); }, Table: function () {}, RuntimeError: Error }),
};
function makeWindowObject(name) {
  const made = WINDOW_OBJECTS[name]();
  if (name === 'history' || name === 'screen') define(made, Symbol.toStringTag, { value: name === 'history' ? 'History' : 'Screen', configurable: true });
  return made;
}

// The functions `Audio`, `Image` and `Option`, which make elements.
function makeElementFunction(name) {
  const tag = name === 'Image' ? 'img' : name.toLowerCase();
  const made = function (one, two) {
    const element = makeElement(tag);
    if (name === 'Audio' && one) element.src = one;
    if (name === 'Option') { element.textContent = one === undefined ? '' : one; if (two !== undefined) element.$marks.value = toText(two); }
    return element;
  };
  made.prototype = elementClassOf(tag).prototype;
  return made;
}
