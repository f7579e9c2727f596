// The global object of the stand-in browser, and the functions by which Python leads it.

// Other names of a class come first: the last one is what it says of itself.
const classes = { HTMLDocument: Document, XMLDocument: Document, Window: EventTarget, SharedWorker: Worker, IntersectionObserver: MutationObserver,
  ResizeObserver: MutationObserver, PerformanceObserver: MutationObserver, ShadowRoot: DocumentFragment,
  EventTarget, Node, Element, Text, Comment, CharacterData, Document, HTMLElement, SVGElement, HTMLUnknownElement, Date: StandInDate,
  Blob, File, ImageData, Event, FormData, DocumentFragment, BroadcastChannel, ClipboardItem, Range, DecompressionStream, ReadableStream,
  TextDecoderStream, TextEncoderStream, TransformStream, WritableStream, FileReader, TextDecoder, TextEncoder, Headers, Response, Request,
  XMLHttpRequest, WebSocket, EventSource, URLSearchParams, URL, MutationObserver, DOMParser, XMLSerializer, Worker, MessageChannel };
for (const name of keysOf(classes)) { hide(window, name, classes[name]); markNative(classes[name], name); }

// What a page may ask for and few pages do: it is made when it is first asked for.
giveLate(['MouseEvent', 'KeyboardEvent', 'CustomEvent', 'UIEvent', 'InputEvent', 'PointerEvent', 'TouchEvent', 'MessageEvent', 'ErrorEvent', 'ProgressEvent', 'FocusEvent',
  'SubmitEvent', 'HashChangeEvent', 'PopStateEvent', 'StorageEvent', 'DragEvent', 'ClipboardEvent', 'WheelEvent', 'AnimationEvent'], name => makeEventClass(name));
giveLate(['WeakRef'], () => makeWeakRef());
giveLate(['Audio', 'Image', 'Option'], name => makeElementFunction(name));
giveLate(keysOf(ELEMENT_TAGS), name => elementClassOf(ELEMENT_TAGS[name]));
giveLate(['Notification', 'RTCPeerConnection', 'AudioContext', 'webkitAudioContext', 'OfflineAudioContext', 'SpeechSynthesisUtterance', 'CompressionStream',
  'XSLTProcessor', 'CSSStyleSheet', 'FontFace', 'PaymentRequest', 'AbortController', 'Path2D', 'OffscreenCanvas', 'DOMMatrix', 'DOMPoint', 'DOMRect', 'WebGLRenderingContext',
  'CanvasRenderingContext2D', 'SVGSVGElement', 'NodeList', 'HTMLCollection', 'NamedNodeMap', 'CSSStyleDeclaration', 'Selection', 'Storage', 'Location', 'Navigator', 'History', 'Screen', 'DOMTokenList'],
name => { if (name === 'XSLTProcessor' || name === 'CompressionStream') lacks(name); return makeAnything(name); });
giveLate(['NodeFilter', 'XPathResult', 'performance', 'crypto', 'WebAssembly', 'Intl'], name => makeWindowObject(name));
giveLate(['screen', 'history', 'localStorage', 'sessionStorage', 'customElements', 'chrome', 'external', 'styleMedia', 'visualViewport', 'speechSynthesis', 'indexedDB', 'caches',
  'trustedTypes', 'CSS', 'scheduler', 'cookieStore'], name => makeWindowObject(name), true);
giveLate(['navigator', 'clientInformation'], () => readNavigator(), true);
giveLate(['console'], () => makeConsole());
for (const [name, value] of [['ELEMENT_NODE', 1], ['TEXT_NODE', 3], ['COMMENT_NODE', 8], ['DOCUMENT_NODE', 9], ['DOCUMENT_FRAGMENT_NODE', 11]]) { hide(Node, name, value); hide(Node.prototype, name, value); }

setPrototype(window, EventTarget.prototype);
lendMembers(String.prototype, StringMembers);
lendMembers(window, WindowMembers);
give(window, {
  addEventListener(type, listener) { register(window, type, listener); }, removeEventListener() {},
  setTimeout(work, delay, ...given) { return startTimer(work, delay, given, false); }, setInterval(work, delay, ...given) { return startTimer(work, delay, given, true); },
  clearTimeout(number) { stopTimer(number); }, clearInterval(number) { stopTimer(number); }, fetch(address, given) { return answerFetch(address, given); },
});
const VALUES = { window, self: window, top: window, parent: window, frames: window, document, opener: null, frameElement: null, length: 0, closed: false, name: '', status: '', innerWidth: 1280, innerHeight: 720, outerWidth: 1296, outerHeight: 800,
  devicePixelRatio: 1, pageXOffset: 0, pageYOffset: 0, scrollX: 0, scrollY: 0, screenX: 10, screenY: 10, screenLeft: 10, screenTop: 10, isSecureContext: true, origin: 'null', crossOriginIsolated: false, event: undefined };
for (const key of keysOf(VALUES)) define(window, key, { value: VALUES[key], writable: true, configurable: true, enumerable: true });
define(window, 'location', { configurable: false, enumerable: true, get: () => readLocation(), set(value) { follow(value, 'location'); } });
define(window, 'onerror', { configurable: true, writable: true, value: null });
hide(window, 'ActiveXObject', undefined);
delete window.ActiveXObject;
delete window.gc;
tag(window, 'Window'); tag(Document.prototype, 'HTMLDocument'); tag(HTMLElement.prototype, 'HTMLElement');
let startOfPage = 0;

// The orders of Python. `next` gives scripts that were added; `turn` lets what waits for time or for the reader happen.
let isWanted = false;
return function lead(order, given, ...texts) {
  if (order === 'watch') { watch(given, () => { isWanted = true; }); return ''; }
  if (order === 'again') { const wanted = isWanted; isWanted = false; return wanted ? 'again' : ''; }
  if (order === 'page') {
    const page = parseJson(given);
    now = page.now * 1000; startOfPage = now;
    if (page.base) baseAddress = resolveAddress(page.base);
    if (page.pixels) pagePixels = Object.assign(makeObject(null), page.pixels);
    loadPage(page.rows, texts);
    if (page.css) sheets[0] = page.css;
    return '';
  }
  if (order === 'gates') { isGated = true; openGates(); return ''; }
  if (order === 'gated') return flatten(compileGates(given));
  if (order === 'force') { forceGates(+given); for (const kind of keysOf(used)) delete used[kind]; noted.clear(); called = 0; return ''; }
  if (order === 'begin') { document.currentScript = scriptPlaces.get(+given) || null; return ''; }
  if (order === 'source') { const text = readAddress(given); if (text !== null) addScript(makeElement('script'), text); return ''; }
  if (order === 'library') { takeLibrary(given); return ''; }
  if (order === 'missing') return giveMissing(given) ? 'given' : '';
  if (order === 'module') { loadModule(given); return ''; }
  if (order === 'error') { tellError(given); noteOnce('error', given.slice(0, 160)); return ''; }
  if (order === 'next') { document.currentScript = null; if (queuePlace >= queued.length) return ''; const next = queued[queuePlace++]; document.currentScript = next.node; if (next.isModule) { loadModule(next.text); return ' '; } return flatten(next.text) || ' '; }
  if (order === 'loaded') { document.currentScript = null; document.readyState = 'complete'; return ''; }
  if (order === 'turn') { calledBefore = called; if (given === 'user' && hasNewInputs) fillInputs(); return taskPlace < tasks.length && runTasks(given) > 0 ? 'more' : ''; }
  return '';
};
