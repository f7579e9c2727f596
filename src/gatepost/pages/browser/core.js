// The core of the stand-in browser: what tells of effects, the clock, events and timers.
//
// The files of this folder are joined into one function (see interpreter.py) that runs before any script of a page. What it
// declares is out of reach of the page, save what it puts on `window`. The page may change every built-in object, so
// what is needed later is taken here. An effect is handed over at once (`tell`): the process may be ended at any moment.
const window = globalThis;
const { Array, Error, JSON, Math, Object, RangeError, Reflect, RegExp, Set, String, Symbol, TypeError, Uint32Array, Uint8ClampedArray, decodeURIComponent, encodeURIComponent, escape, parseInt, unescape } = globalThis;
const nativeEval = eval, stringify = JSON.stringify, parseJson = JSON.parse, NativeDate = Date, NativeFunction = Function;
const toText = String, fromCodes = String.fromCharCode, setPrototype = Object.setPrototypeOf, define = Object.defineProperty;
const setWeak = WeakMap.prototype.set, hasOwn = Object.hasOwn, describe = Object.getOwnPropertyDescriptor, isArray = Array.isArray, keysOf = Object.keys, makeObject = Object.create, isView = ArrayBuffer.isView;
const Bytes = Uint8Array, Buffer = ArrayBuffer, NativeMap = Map, NativePromise = Promise, NativeProxy = Proxy, apply = Reflect.apply;
const nativeBtoa = btoa, nativeAtob = atob, toBase64 = Bytes.prototype.toBase64;
const nativeThen = Promise.prototype.then, nativeJoin = Array.prototype.join, nativeLower = String.prototype.toLowerCase, nativeUpper = String.prototype.toUpperCase, flatten = text => apply(nativeJoin, [text], ['']);
const resolved = value => NativePromise.resolve(value), rejected = fault => NativePromise.reject(fault);
const slice = (list, from) => { const out = []; for (let i = from || 0; i < list.length; i++) out[out.length] = list[i]; return out; };
const MAX_TASKS = 1500, MAX_INTERVAL = 12;

// How many effects of a kind are kept, and how many characters: a page that makes many of one kind hides no other.
const MOST = { __proto__: null, blob: [200, 8000000], saved: [60, 12000000], save: [200, 200000], code: [120, 2000000], markup: [120, 2000000], write: [120, 3000000],
  given: [80, 500000], request: [150, 2000000], go: [120, 400000], clipboard: [80, 1000000], inflate: [40, 6000000], wasm: [20, 4000000] };
// Which value of an effect is bytes. These are written in base64: as text, a byte may take six characters.
const BYTES_AT = { __proto__: null, blob: 2, saved: 2, inflate: 1 };
const OTHER = [150, 300000];
const PASSWORD = 'Typed-Secret-73', ACCOUNT = 'reader@typed.example', TYPED = 'typed-text-4711', KEY = '\u01c2', ANSWER = 'AnswerOfServer0815', SECRET = 'PlainTextOfSecret0815';
const nativeTell = window.__tell, tell = line => nativeTell(flatten(line));
delete window.__tell;
const used = makeObject(null);
let isCut = false, trigger = 'load';
const cut = () => { if (!isCut) tell('["cut"]'); isCut = true; };

// Tell of one effect: a kind and strings. What does not fit is left out, and that is said.
function note(kind, ...values) {
  const most = MOST[kind] || OTHER, spent = used[kind] || (used[kind] = [0, 0]);
  if (spent[0] >= most[0]) { cut(); return false; }
  let line = stringify(kind), size = 0;
  for (let i = 0; i < values.length; i++) {
    let value;
    try { value = toText(values[i]); } catch (fault) { value = ''; }
    size += value.length;
    if (spent[1] + size > most[1]) { cut(); return false; }
    line += ',' + (i === BYTES_AT[kind] ? '"' + nativeBtoa(value) + '"' : stringify(value));
  }
  spent[0]++; spent[1] += size;
  tell('[' + line + ']');
  return true;
}
const noted = new NativeMap();
function noteOnce(kind, value) {
  const key = kind + '\n' + value;
  if (noted.size < 400 && !noted.has(key)) { noted.set(key, 1); note(kind, value); }
}
const lacks = name => noteOnce('missing', name);
// The last error, for a page that waits for one.
let lastFault, lastMessage = '';
const toldErrors = new NativeMap();
function tellError(text, fault) {
  lastFault = fault === undefined ? new Error(text.replace(/^\w*Error: /, '')) : fault; lastMessage = 'Uncaught ' + text;
  if (toldErrors.size > 20 || toldErrors.has(text)) return;
  toldErrors.set(text, 1);
  const handler = window.onerror, told = lastFault;
  if (typeof handler === 'function') addTask(() => apply(handler, window, [lastMessage, PAGE, 1, 1, told]));
}
const noteError = fault => {
  let text = '';
  try { tellError(fault && fault.name ? fault.name + ': ' + fault.message : toText(fault), fault); } catch (other) { /* hostile */ }
  try { text = fault && fault.name ? fault.name + ': ' + fault.message : toText(fault); } catch (other) { /* hostile */ }
  noteOnce('error', text.slice(0, 160));
};

// Functions of the stand-in look like those of a browser.
const nativeNames = new WeakMap(), NATIVE = /^(function \S*\(\))\s*\{\s*\[native code\]\s*\}$/;
const markNative = (made, name) => apply(setWeak, nativeNames, [made, name]);
const nativeToString = NativeFunction.prototype.toString;
define(NativeFunction.prototype, 'toString', { configurable: true, writable: true, value: function toString() {
  const name = nativeNames.get(this);
  if (name !== undefined) return 'function ' + name + '() { [native code] }';
  const text = apply(nativeToString, this, []);
  // Built-in functions are written as in other interpreters: codes of a few signs take their letters from there.
  return text.length < 100 && NATIVE.test(text) ? text.replace(NATIVE, '$1 { [native code] }') : text;
} });
markNative(NativeFunction.prototype.toString, 'toString');
const hide = (owner, name, value) => define(owner, name, { value, writable: true, configurable: true, enumerable: false });
function give(owner, members) {
  const names = keysOf(members);
  for (let i = 0; i < names.length; i++) {
    const name = names[i], value = members[name];
    if (typeof value === 'function') markNative(value, name);
    hide(owner, name, value);
  }
}

// Files are a class of their own once the page has made the first.
const isBlob = value => Blob !== undefined && value instanceof Blob;
const tag = (owner, name) => define(owner, Symbol.toStringTag, { value: name, configurable: true });

define(window, 'eval', { configurable: true, enumerable: false, get() { noteOnce('evaluates', ''); return nativeEval; },
  set(value) { define(window, 'eval', { value, writable: true, configurable: true, enumerable: false }); } });

// As code it is a name.
for (const mark of [ANSWER, SECRET]) define(window, mark, { configurable: false, get() { note('code', 'eval', mark); return undefined; } });
give(JSON, { parse(text, ...given) { return typeof text === 'string' && text.indexOf(ANSWER) >= 0 || text && text[Symbol.toPrimitive] && toText(text) === ANSWER ? makeAnswer() : parseJson(text, ...given); } });

// The clock stands still save for timers and for scripts that wait by asking for the time.
let now = 0, asked = 0;
const readClock = () => { asked++; now += asked > 200 ? 40 : 1; return now; };
function StandInDate(...given) {
  if (!new.target) return new NativeDate(readClock()).toString();
  return Reflect.construct(NativeDate, given.length ? given : [readClock()], new.target === StandInDate ? NativeDate : new.target);
}
StandInDate.prototype = NativeDate.prototype;
hide(NativeDate.prototype, 'constructor', StandInDate);
give(StandInDate, { now: () => readClock(), parse: NativeDate.parse, UTC: NativeDate.UTC });
markNative(StandInDate, 'Date');
let seed = 20240229;
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
give(Math, { random });

// Events, timers and other work for later. Each task is called once; `who` says whether the reader must act for it.
const tasks = setPrototype([], null);
let taskPlace = 0, called = 0, calledBefore = 0;
function addTask(run, who, at) {
  if (tasks.length < 20000) tasks[tasks.length] = { run, who: who || trigger, at: at === undefined ? now : at };
  else cut();
}

// Code that is made of a string at run time. `import()` has no loader here, so it becomes a call of ours.
const IMPORT = /(^|[^\w$.])import\s*\(/g;
let isGated = false;
const prepareCode = source => {
  source = toText(source);
  if (source.indexOf('import') >= 0) source = source.replace(IMPORT, '$1__importData(');
  return isGated ? compileGates(source) : source;
};
// Code with its conditions in calls, or as it is where that does not compile.
function compileGates(source) {
  const gated = writeGates(source);
  if (gated !== source) try { new NativeFunction(gated); return gated; } catch (fault) { /* read wrongly */ }
  return source;
}
function runCode(source, how, self) {
  note('code', how, source);
  source = prepareCode(source);
  if (self !== undefined) return apply(new NativeFunction('event', source), self, [makeEvent('load', self)]);
  return nativeEval(source);
}
function makeFunction(constructor) {
  const made = function (...given) {
    if (given.length) {
      note('code', 'function', given[given.length - 1]);
      given[given.length - 1] = prepareCode(given[given.length - 1]);
        }
    return Reflect.construct(constructor, given);
  };
  made.prototype = constructor.prototype;
  hide(constructor.prototype, 'constructor', made);
  markNative(made, constructor.name);
  return made;
}
window.Function = makeFunction(NativeFunction);
const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor;
makeFunction(AsyncFunction);
makeFunction(Object.getPrototypeOf(function* () {}).constructor);
const registered = setPrototype([], null);

class EventTarget {
  addEventListener(type, listener) { register(this, type, listener); }
  removeEventListener() {}
  attachEvent(type, listener) { register(this, toText(type).slice(2), listener); }
  dispatchEvent(event) { return dispatchTo(this, event); }
}
const HANDLERS = ('abort animationend animationiteration animationstart beforeunload blur canplay change click contextmenu copy cut dblclick ' +
  'drag dragend dragover dragstart drop ended error focus hashchange input invalid keydown keypress keyup load loadeddata loadend ' +
  'loadstart message messageerror mousedown mouseenter mouseleave mousemove mouseout mouseover mouseup open close offline online pagehide ' +
  'pageshow paste play pointerdown pointermove pointerup popstate progress readystatechange reset resize scroll select storage submit ' +
  'success toggle transitionend unload unhandledrejection upgradeneeded wheel begin end timeout').split(' ');
const HANDLED = Symbol('handlers');
function addHandlers(owner, types) {
  for (const type of types) {
    define(owner, 'on' + type, { configurable: true, enumerable: true,
      get() { const all = this[HANDLED]; return all && all[type] || null; },
      set(value) { (this[HANDLED] || (this[HANDLED] = makeObject(null)))[type] = value; if (typeof value === 'function') register(this, type, value); } });
  }
}
addHandlers(EventTarget.prototype, HANDLERS);
