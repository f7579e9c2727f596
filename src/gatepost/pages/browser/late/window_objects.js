// Objects of the window, each made when a page first asks for it.

function makeStorage() {
  const kept = makeObject(null);
  return new NativeProxy({}, { get: (_, key) => key === 'getItem' ? name => name in kept ? kept[name] : null : key === 'setItem' ? (name, value) => { kept[name] = toText(value); } : key === 'removeItem' ? name => { delete kept[name]; } : key === 'clear' ? () => { for (const name of keysOf(kept)) delete kept[name]; } : key === 'key' ? place => keysOf(kept)[place] || null : key === 'length' ? keysOf(kept).length : kept[key], set: (_, key, value) => { kept[key] = toText(value); return true; } });
}

class MutationObserver { constructor(call) { hide(this, 'call', call); } observe(target) { const call = this.call; addTask(() => call([{ target, isIntersecting: true, intersectionRatio: 1, type: 'childList', addedNodes: [], removedNodes: [], contentRect: { width: 300, height: 40 }, boundingClientRect: { top: 0 } }], this)); } unobserve() {} disconnect() {} takeRecords() { return []; } }

class DOMParser { parseFromString(html) { const made = new Document(); html = toText(html); readMarkup(/<html/i.test(html) ? html : '<html><head></head><body>' + html + '</body></html>', made, false); return made; } }

class XMLSerializer { serializeToString(node) { return node && node.nodeType === 1 ? writeElement(node, 0) : node && node.$list ? writeMarkup(node, 0) : ''; } }

const randomBytes = view => { for (let i = 0; i < view.length; i++) view[i] = random() * 256; return view; };
const decrypts = () => { note('decrypts', trigger); return resolved(viewOf(SECRET).buffer); };
function makeClock() {
  const clock = {};
  give(clock, { now: () => readClock() - startOfPage, mark() {}, measure() {}, getEntriesByType: () => [], getEntriesByName: () => [], clearMarks() {}, clearMeasures() {} });
  hide(clock, 'timing', { navigationStart: 0, loadEventEnd: 0 });
  hide(clock, 'timeOrigin', 0);
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
  Intl: () => { const made = makeAnything('Intl'); made.Segmenter = function () { this.segment = text => slice([...toText(text)]).map((segment, index) => ({ segment, index, isWordLike: true })); }; return made; },
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
