// The global object of the stand-in browser, and the functions by which Python leads it.

const anything = name => makeAnything(name);
const classes = { Event, EventTarget, Node, Element, Text, Comment, CharacterData, DocumentFragment, Document, Range, URL, URLSearchParams, Blob, File, FileReader,
  TextDecoder, TextEncoder, Headers, Response, Request, FormData, XMLHttpRequest, WebSocket, EventSource, Worker, SharedWorker: Worker, MessageChannel, ReadableStream,
  TransformStream, WritableStream, DecompressionStream, ClipboardItem, ImageData, Date: StandInDate, MutationObserver: Observer, IntersectionObserver: Observer,
  ResizeObserver: Observer, PerformanceObserver: Observer, HTMLDocument: Document, XMLDocument: Document, Window: EventTarget, ShadowRoot: DocumentFragment };
for (const name of keysOf(classes)) { hide(window, name, classes[name]); nativeNames.set(classes[name], name); }
for (const name of ['MouseEvent', 'KeyboardEvent', 'CustomEvent', 'UIEvent', 'InputEvent', 'PointerEvent', 'TouchEvent', 'MessageEvent', 'ErrorEvent', 'ProgressEvent', 'FocusEvent',
  'SubmitEvent', 'HashChangeEvent', 'PopStateEvent', 'StorageEvent', 'DragEvent', 'ClipboardEvent', 'WheelEvent', 'AnimationEvent']) { const made = class extends Event {}; define(made, 'name', { value: name }); hide(window, name, made); }
for (const name of ['Audio', 'Image', 'Option']) {
  hide(window, name, function (one, two) { const made = makeElement(name === 'Image' ? 'img' : name.toLowerCase()); if (name === 'Audio' && one) made.src = one; if (name === 'Option') { made.textContent = one === undefined ? '' : one; if (two !== undefined) made.$marks.value = toText(two); } return made; });
  window[name].prototype = elementClasses[name === 'Image' ? 'img' : name.toLowerCase()].prototype;
}
hide(window, 'HTMLImageElement', elementClasses.img);
for (const name of ['Notification', 'RTCPeerConnection', 'BroadcastChannel', 'AudioContext', 'webkitAudioContext', 'OfflineAudioContext', 'SpeechSynthesisUtterance', 'CompressionStream',
  'XSLTProcessor', 'CSSStyleSheet', 'FontFace', 'PaymentRequest', 'AbortController', 'Intl', 'Path2D', 'OffscreenCanvas', 'DOMMatrix', 'DOMPoint', 'DOMRect', 'WebGLRenderingContext',
  'CanvasRenderingContext2D', 'SVGSVGElement', 'NodeList', 'HTMLCollection', 'NamedNodeMap', 'CSSStyleDeclaration', 'Selection', 'Storage', 'Location', 'Navigator', 'History', 'Screen', 'DOMTokenList']) {
  let made = null;
  define(window, name, { configurable: true, get() { if (!made) { made = makeAnything(name); if (name === 'XSLTProcessor' || name === 'CompressionStream') lacks(name); } return made; }, set(value) { define(window, name, { value, writable: true, configurable: true }); } });
}
hide(window, 'NodeFilter', { SHOW_ALL: 0xffffffff, SHOW_ELEMENT: 1, SHOW_TEXT: 4, SHOW_COMMENT: 128, FILTER_ACCEPT: 1, FILTER_REJECT: 2, FILTER_SKIP: 3 });
for (const [name, value] of [['ELEMENT_NODE', 1], ['TEXT_NODE', 3], ['COMMENT_NODE', 8], ['DOCUMENT_NODE', 9], ['DOCUMENT_FRAGMENT_NODE', 11]]) { hide(Node, name, value); hide(Node.prototype, name, value); }
hide(window, 'XPathResult', { ANY_TYPE: 0, STRING_TYPE: 2, FIRST_ORDERED_NODE_TYPE: 9, ORDERED_NODE_SNAPSHOT_TYPE: 7, UNORDERED_NODE_SNAPSHOT_TYPE: 6, ORDERED_NODE_ITERATOR_TYPE: 5 });

class DOMParser { parseFromString(html) { const made = new Document(); html = toText(html); readMarkup(/<html/i.test(html) ? html : '<html><head></head><body>' + html + '</body></html>', made, false); return made; } }
class XMLSerializer { serializeToString(node) { return node && node.nodeType === 1 ? writeElement(node, 0) : node && node.$list ? writeMarkup(node, 0) : ''; } }
hide(window, 'DOMParser', DOMParser); hide(window, 'XMLSerializer', XMLSerializer);

const listen = { addEventListener: EventTarget.prototype.addEventListener, removeEventListener() {}, dispatchEvent: EventTarget.prototype.dispatchEvent, attachEvent: EventTarget.prototype.attachEvent };
give(window, {
  addEventListener(type, listener) { register(window, type, listener); }, removeEventListener() {}, dispatchEvent(event) { return apply(listen.dispatchEvent, window, [event]); }, attachEvent(type, listener) { register(window, toText(type).slice(2), listener); },
  setTimeout(work, delay, ...given) { return startTimer(work, delay, given, false); }, setInterval(work, delay, ...given) { return startTimer(work, delay, given, true); }, setImmediate(work, ...given) { return startTimer(work, 0, given, false); },
  requestAnimationFrame(work) { return startTimer(work, 16, [1500], false); }, requestIdleCallback(work) { return startTimer(work, 1, [{ didTimeout: false, timeRemaining: () => 10 }], false); },
  clearTimeout: stopTimer, clearInterval: stopTimer, clearImmediate: stopTimer, cancelAnimationFrame: stopTimer, cancelIdleCallback: stopTimer,
  fetch: answerFetch, alert(text) { note('says', text, trigger); }, confirm(text) { note('says', text, trigger); return true; }, prompt(text) { note('says', text, trigger); return PASSWORD; }, print() {}, stop() {}, focus() {}, blur() {}, scroll() {}, scrollTo() {}, scrollBy() {}, moveTo() {}, resizeTo() {}, close() {}, find: () => false,
  open(target) { if (target !== undefined && target !== '') follow(target, 'open'); return frameWindow(makeElement('iframe')); }, showModalDialog(target) { follow(target, 'open'); }, navigate(target) { follow(target, 'location'); },
  getComputedStyle: computeStyle, matchMedia: text => ({ matches: !/dark|print|reduce/.test(toText(text)), media: toText(text), addListener() {}, addEventListener() {}, removeListener() {}, removeEventListener() {} }), getSelection: () => selection,
  postMessage(data) { addTask(() => { const event = Object.assign(makeEvent('message', window), { data }); for (let i = 0; i < registered.length; i++) if (registered[i].type === 'message' && registered[i].target === window) apply(registered[i].listener, window, [event]); }); },
  structuredClone: value => { try { return parseJson(stringify(value)); } catch (fault) { return value; } }, reportError: noteError, createImageBitmap: image => resolved(image), importScripts(...all) { for (const each of all) { const text = readAddress(each); if (text !== null) runCode(text, 'import'); } }, execScript(text) { runCode(text, 'script'); },
  showSaveFilePicker(given) { const name = given && given.suggestedName || ''; return resolved({ name, createWritable: () => resolved({ write(part) { const blob = part instanceof Blob ? part : new Blob([part && part.data !== undefined ? part.data : part]); noteSave(blob, name); return resolved(); }, close: () => resolved(), truncate: () => resolved(), seek: () => resolved() }) }); },
  showOpenFilePicker: () => rejected(new Error('AbortError')), showDirectoryPicker: () => rejected(new Error('AbortError')),
  __importData(address) { const text = readAddress(address); if (text === null) { note('request', 'GET', resolveAddress(address), '', 'module', trigger); return resolved(makeAnything('module')); } return loadModule(text); },
});
hide(window, 'ActiveXObject', undefined);
delete window.ActiveXObject;
// Modules have no loader here: what they export is put together by a function.
const EXPORT = /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(^|[;{}\n\s])export\s+(default\s+|const\s+|let\s+|var\s+|function\s*\*?\s*|async\s+function\s+|class\s+)?([\w$]*)?/g;
function loadModule(text) {
  note('code', 'module', text);
  const names = [];
  let body = prepareCode(text).replace(EXPORT, (all, literal, before, kind, name) => {
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
    return resolved(run(exports)).then(() => exports);
  } catch (fault) { noteError(fault); return rejected(fault); }
}

const self_ = { window, self: window, top: window, parent: window, frames: window, document, navigator, clientInformation: navigator, opener: null, frameElement: null, length: 0, closed: false, name: '', status: '', innerWidth: 1280, innerHeight: 720, outerWidth: 1296, outerHeight: 800,
  devicePixelRatio: 1, pageXOffset: 0, pageYOffset: 0, scrollX: 0, scrollY: 0, screenX: 10, screenY: 10, screenLeft: 10, screenTop: 10, isSecureContext: true, origin: 'null', crossOriginIsolated: false, event: undefined,
  screen: { width: 1920, height: 1080, availWidth: 1920, availHeight: 1040, colorDepth: 24, pixelDepth: 24, orientation: { type: 'landscape-primary', addEventListener() {} } },
  history: { length: 2, state: null, scrollRestoration: 'auto', pushState() {}, replaceState() {}, back() {}, forward() {}, go() {} }, localStorage: makeStorage(), sessionStorage: makeStorage(), customElements: { define(name, made) { customs.set(toText(name).toLowerCase(), made); for (const node of selectAll(document, toText(name))) callCustom(node, made); }, get: name => customs.get(name), whenDefined: () => resolved(), upgrade() {} },
  chrome: { runtime: {}, app: {} }, external: {}, styleMedia: { type: 'screen' }, visualViewport: { width: 1280, height: 720, scale: 1, addEventListener() {} }, speechSynthesis: anything('speech'), indexedDB: anything('indexedDB'), caches: anything('caches'), trustedTypes: { createPolicy: (name, rules) => ({ createHTML: text => rules && rules.createHTML ? rules.createHTML(text) : text, createScript: text => rules && rules.createScript ? rules.createScript(text) : text, createScriptURL: text => rules && rules.createScriptURL ? rules.createScriptURL(text) : text }) },
  CSS: { supports: () => true, escape: toText, registerProperty() {} }, scheduler: { postTask(work) { addTask(work); return resolved(); } }, cookieStore: anything('cookieStore') };
for (const key of keysOf(self_)) { if (key !== 'globalThis') define(window, key, { value: self_[key], writable: true, configurable: true, enumerable: true }); }
define(window, 'location', { configurable: false, enumerable: true, get: () => location, set(value) { follow(value, 'location'); } });
define(window, 'onerror', { configurable: true, writable: true, value: null });
for (const type of HANDLERS) if (type !== 'error' && !type.startsWith('touch')) { let kept = null; define(window, 'on' + type, { configurable: true, enumerable: true, get: () => kept, set(value) { kept = value; if (typeof value === 'function') register(window, type, value); } }); }
const clock = {};
give(clock, { now: () => readClock() - startOfPage, mark() {}, measure() {}, getEntriesByType: () => [], getEntriesByName: () => [], clearMarks() {}, clearMeasures() {} });
hide(clock, 'timing', { navigationStart: 0, loadEventEnd: 0 });
hide(clock, 'timeOrigin', 0);
hide(window, 'performance', clock);
let startOfPage = 0;
const randomBytes = view => { for (let i = 0; i < view.length; i++) view[i] = random() * 256; return view; };
const decrypts = () => { note('decrypts', trigger); return resolved(viewOf(SECRET).buffer); };
hide(window, 'crypto', { getRandomValues: randomBytes, randomUUID: () => '36b8f84d-df4e-4d49-b662-bcde71a8764f', subtle: { decrypt: () => decrypts(), encrypt: () => resolved(new Buffer(16)), importKey: () => resolved({}), deriveKey: () => resolved({}), deriveBits: () => resolved(new Buffer(32)), digest: () => resolved(new Buffer(32)), generateKey: () => resolved({}), exportKey: () => resolved(new Buffer(32)), sign: () => resolved(new Buffer(32)), verify: () => resolved(true) } });
const silent = {};
for (const name of ['log', 'info', 'warn', 'error', 'debug', 'table', 'dir', 'trace', 'group', 'groupEnd', 'groupCollapsed', 'clear', 'time', 'timeEnd', 'assert', 'count', 'profile', 'profileEnd']) silent[name] = () => undefined;
hide(window, 'console', silent);
hide(window, 'WebAssembly', { instantiate(bytes) { note('wasm', bytes && typeof bytes === 'object' && !bytes.then ? bytesOf(bytes) : ''); return resolved({ instance: { exports: makeAnything('wasm') }, module: {} }); }, compile(bytes) { note('wasm', bytesOf(bytes)); return resolved({}); }, instantiateStreaming() { note('wasm', ''); return resolved({ instance: { exports: makeAnything('wasm') } }); }, compileStreaming: () => resolved({}), validate: () => true,
  Module: function (bytes) { note('wasm', bytesOf(bytes)); }, Instance: function () { this.exports = makeAnything('wasm'); }, Memory: function () { this.buffer = new Buffer(65536); }, Table: function () {}, RuntimeError: Error });
delete window.gc;
// A library that the page loads from elsewhere is not here; what bears its name answers everything.
const LIBRARIES = [[/jquery/i, ['$', 'jQuery']], [/axios/i, ['axios']], [/crypto-?js/i, ['CryptoJS']], [/file-?saver/i, ['saveAs']], [/jszip/i, ['JSZip']], [/pako/i, ['pako']], [/lodash|underscore/i, ['_']], [/emailjs/i, ['emailjs']], [/sweetalert/i, ['Swal', 'swal']]];
function takeLibrary(source) {
  for (const [pattern, names] of LIBRARIES) if (pattern.test(source)) for (const name of names) giveMissing(name);
}
function giveMissing(name) {
  if (name in window) return false;
  lacks(name);
  let value;
  if (name === '$' || name === 'jQuery') { value = makeQuery(); hide(window, '$', value); hide(window, 'jQuery', value); return true; }
  if (name === 'saveAs') value = (blob, file) => { if (blob instanceof Blob) noteSave(blob, toText(file === undefined ? blob.name || '' : file)); else saveAddress(blob, toText(file || '')); };
  else value = makeAnything(name);
  hide(window, name, value);
  return true;
}

// The part of jQuery that pages in mail use.
function makeQuery() {
  const wrap = nodes => {
    const each = call => { for (let i = 0; i < nodes.length; i++) call(nodes[i], i); return api; };
    const on = (type, ...given) => { const call = given[given.length - 1]; if (typeof call === 'function') each(node => { for (const one of toText(type).split(/\s+/)) register(node, one.replace(/\..*$/, ''), call); }); return api; };
    const text = value => value && value.isQuery ? value.get(0) : value;
    const known = { isQuery: true, length: nodes.length, get: place => place === undefined ? nodes : nodes[place], toArray: () => nodes, on, bind: on, one: on, live: on, delegate: on, off: () => api,
      ready(call) { addTask(() => call(query)); return api; }, each(call) { return each((node, i) => apply(call, node, [i, node])); }, trigger(type) { return each(node => { if (type === 'click') clickElement(node); else if (type === 'submit') sendForm(node); else apply(EventTarget.prototype.dispatchEvent, node, [new Event(type)]); }); },
      val(value) { if (value === undefined) { fillInputs(); return nodes[0] ? nodes[0].value : undefined; } return each(node => { node.value = value; }); }, html(value) { return value === undefined ? nodes[0] ? nodes[0].innerHTML : undefined : each(node => { node.innerHTML = text(value); }); }, text(value) { return value === undefined ? nodes.map(node => node.textContent).join('') : each(node => { node.textContent = value; }); },
      attr(name, value) { if (typeof name === 'object') { for (const key of keysOf(name)) each(node => node.setAttribute(key, name[key])); return api; } return value === undefined ? nodes[0] ? nodes[0].getAttribute(name) === null ? undefined : nodes[0].getAttribute(name) : undefined : each(node => node.setAttribute(name, value)); },
      prop(name, value) { return value === undefined ? nodes[0] && nodes[0][name] : each(node => { node[name] = value; }); }, data(name, value) { return value === undefined ? nodes[0] && nodes[0].$marks ? nodes[0].$marks['data-' + name] : undefined : api; }, css(name, value) { return value === undefined && typeof name === 'string' ? '' : api; },
      append(value) { return each(node => { value = text(value); if (value && value.nodeType) node.appendChild(value); else setMarkup(node, value, node); }); }, appendTo(value) { return each(node => { const into = query(value).get(0); if (into) into.appendChild(node); }); }, find: value => wrap([].concat(...nodes.map(node => selectAll(node, value)))), children: () => wrap([].concat(...nodes.map(node => slice(node.children)))), parent: () => wrap(nodes.map(node => node.parentNode).filter(node => node)), closest: value => wrap(nodes.map(node => node.closest && node.closest(value)).filter(node => node)), first: () => wrap(nodes.slice(0, 1)), last: () => wrap(nodes.slice(-1)), eq: place => wrap(nodes.slice(place, place + 1)), filter: () => api, not: () => api,
      addClass: value => each(node => node.classList.add(value)), removeClass: value => each(node => node.classList.remove(value)), toggleClass: () => api, hasClass: value => nodes.some(node => node.classList.contains(value)), is: () => false, remove: () => each(node => node.remove()), serialize: () => nodes.map(node => new URLSearchParams(new FormData(node)).toString()).join('&'), serializeArray: () => [].concat(...nodes.map(node => new FormData(node).pairs.map(pair => ({ name: pair[0], value: pair[1] })))), submit: call => typeof call === 'function' ? on('submit', call) : each(sendForm), index: () => 0, width: () => 300, height: () => 40, offset: () => ({ top: 0, left: 0 }), load(target) { makeRequest('GET', target, '', 'xhr'); return api; } };
    for (const type of ['click', 'keyup', 'keydown', 'keypress', 'change', 'focus', 'blur', 'hover', 'mouseenter', 'mousemove', 'scroll', 'input', 'dblclick']) known[type] = call => { if (typeof call === 'function') return on(type, call); return each(node => { if (type === 'click') clickElement(node); }); };
    for (let i = 0; i < nodes.length; i++) known[i] = nodes[i];
    const api = new NativeProxy(known, { get: (own, key) => key in own ? own[key] : typeof key === 'symbol' ? key === Symbol.iterator ? nodes[Symbol.iterator].bind(nodes) : undefined : key === 'then' ? undefined : (...given) => { for (const one of given) if (typeof one === 'function') addTask(() => apply(one, nodes[0], [])); return api; } });
    return api;
  };
  const query = given => typeof given === 'function' ? (addTask(() => given(query)), wrap([document])) : typeof given === 'string' ? given.trim()[0] === '<' ? (() => { const root = new DocumentFragment(); setMarkup(root, given, root); return wrap(slice(root.$list)); })() : wrap(selectAll(document, given)) : given && given.isQuery ? given : wrap(given ? isArray(given) ? given : [given] : []);
  const ajax = (target, given) => {
    if (target && typeof target === 'object') { given = target; target = given.url; }
    given = given || {};
    makeRequest(given.type || given.method || 'GET', target || '', typeof given.data === 'string' ? given.data : given.data, 'ajax');
    for (const name of ['beforeSend', 'success', 'complete', 'error']) if (typeof given[name] === 'function') addTask(() => given[name](makeAnswer()));
    return makePromise();
  };
  const makePromise = () => { const made = {}; for (const name of ['done', 'always', 'fail', 'then', 'catch']) made[name] = call => { if (typeof call === 'function') addTask(() => call(makeAnswer())); return made; }; return made; };
  const send = method => (target, data, call) => { if (typeof data === 'function') { call = data; data = undefined; } return ajax({ url: target, type: method, data, success: call }); };
  const known = { ajax, post: send('POST'), get: send('GET'), getJSON: send('GET'), getScript(target) { makeRequest('GET', target, '', 'script'); return makePromise(); }, each(list, call) { for (const key of keysOf(list || {})) call(key, list[key]); }, extend: Object.assign, trim: text => toText(text).trim(), parseJSON: parseJson, isFunction: value => typeof value === 'function', fn: {}, noConflict: () => query, param: data => new URLSearchParams(data).toString(), parseHTML: html => { const root = new DocumentFragment(); setMarkup(root, html, root); return root.$list; }, inArray: (value, list) => list.indexOf(value), support: {}, ready(call) { addTask(() => call(query)); }, when: makePromise, Deferred: makePromise, browser: {}, event: {}, ajaxSetup() {}, map: (list, call) => list.map((value, i) => call(value, i)) };
  return new NativeProxy(query, { get: (own, key) => key in known ? known[key] : own[key], set: (own, key, value) => { known[key] = value; return true; } });
}

// The orders of Python. `next` gives scripts that were added; `turn` lets what waits for time or for the reader happen.
return function lead(order, given) {
  if (order === 'page') {
    const page = parseJson(given);
    now = page.now * 1000; startOfPage = now;
    if (page.base) baseAddress = resolveAddress(page.base);
    if (page.pixels) pagePixels = Object.assign(makeObject(null), page.pixels);
    loadPage(page.rows);
    if (page.css) readSheet(page.css);
    return '';
  }
  if (order === 'begin') { document.currentScript = scriptPlaces.get(+given) || null; return ''; }
  if (order === 'source') { const text = readAddress(given); if (text !== null) addScript(makeElement('script'), text); return ''; }
  if (order === 'library') { takeLibrary(given); return ''; }
  if (order === 'missing') return giveMissing(given) ? 'given' : '';
  if (order === 'module') { loadModule(given); return ''; }
  if (order === 'error') { noteOnce('error', given); return ''; }
  if (order === 'next') { document.currentScript = null; if (queuePlace >= queued.length) return ''; const next = queued[queuePlace++]; document.currentScript = next.node; if (next.isModule) { loadModule(next.text); return ' '; } return flatten(next.text) || ' '; }
  if (order === 'loaded') { document.currentScript = null; document.readyState = 'complete'; return ''; }
  if (order === 'turn') { if (given === 'user') fillInputs(); return runTasks(given) > 0 ? 'more' : ''; }
  if (order === 'collect') {
    if (isCut) effects[effects.length] = '["cut"]';
    effects[effects.length] = '["tasks","' + (called - calledBefore) + '"]';
    return flatten('[' + apply(nativeJoin, effects, [',']) + ']');
  }
  return '';
};
