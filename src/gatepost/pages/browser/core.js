// The core of the stand-in browser: the list of effects, the clock, events, timers, and guards of slow functions.
//
// The files of this folder are joined into one function (see runner.py) that runs before any script of a page. What it
// declares is out of reach of the page, save what it puts on `window`. The page may change every built-in object, so
// what is needed later is taken here, and effects are kept as strings in a list without a prototype.

const window = globalThis;
const nativeEval = eval, stringify = JSON.stringify, parseJson = JSON.parse, NativeDate = Date, NativeFunction = Function;
const toText = String, fromCodes = String.fromCharCode, setPrototype = Object.setPrototypeOf, define = Object.defineProperty;
const isArray = Array.isArray, keysOf = Object.keys, makeObject = Object.create, isView = ArrayBuffer.isView;
const Bytes = Uint8Array, Buffer = ArrayBuffer, NativeMap = Map, NativePromise = Promise, NativeProxy = Proxy, apply = Reflect.apply;
const nativeJoin = Array.prototype.join, flatten = text => apply(nativeJoin, [text], ['']);
const resolved = value => NativePromise.resolve(value), rejected = fault => NativePromise.reject(fault);
const slice = (list, from) => { const out = []; for (let i = from || 0; i < list.length; i++) out[out.length] = list[i]; return out; };

const MAX_TASKS = 1500, MAX_INTERVAL = 12;
// How many effects of a kind are kept, and how many characters: a page that makes many of one kind hides no other.
const MOST = { blob: [200, 8000000], saved: [60, 12000000], save: [200, 200000], code: [120, 2000000], markup: [120, 2000000], write: [120, 3000000],
  given: [80, 500000], request: [150, 2000000], go: [120, 400000], clipboard: [80, 1000000], inflate: [40, 6000000], wasm: [20, 4000000] };
const OTHER = [150, 300000];
const PASSWORD = 'Typed-Secret-73', ACCOUNT = 'reader@typed.example', TYPED = 'typed-text-4711', ANSWER = 'AnswerOfServer0815', SECRET = 'PlainTextOfSecret0815';

const effects = setPrototype([], null);
const used = makeObject(null);
let isCut = false, trigger = 'load';

// Keep one effect: a kind and strings. What does not fit is left out, and that is said.
function note(kind, ...values) {
  const most = MOST[kind] || OTHER, spent = used[kind] || (used[kind] = [0, 0]);
  let line = stringify(kind), size = 0;
  if (spent[0] >= most[0]) { isCut = true; return false; }
  for (let i = 0; i < values.length; i++) {
    let value;
    try { value = toText(values[i]); } catch (fault) { value = ''; }
    size += value.length;
    if (spent[1] + size > most[1]) { isCut = true; return false; }
    line += ',' + stringify(value);
  }
  spent[0]++; spent[1] += size;
  effects[effects.length] = '[' + line + ']';
  return true;
}

const noted = new NativeMap();
function noteOnce(kind, value) {
  const key = kind + '\n' + value;
  if (noted.size < 400 && !noted.has(key)) { noted.set(key, 1); note(kind, value); }
}
const lacks = name => noteOnce('missing', name);
const noteError = fault => {
  let text = '';
  try { text = fault && fault.name ? fault.name + ': ' + fault.message : toText(fault); } catch (other) { /* hostile */ }
  noteOnce('error', text.slice(0, 160));
};

// Functions of the stand-in look like those of a browser.
const nativeNames = new WeakMap();
const nativeToString = NativeFunction.prototype.toString;
define(NativeFunction.prototype, 'toString', { configurable: true, writable: true, value: function toString() {
  const name = nativeNames.get(this);
  return name === undefined ? apply(nativeToString, this, []) : 'function ' + name + '() { [native code] }';
} });
nativeNames.set(NativeFunction.prototype.toString, 'toString');
const hide = (owner, name, value) => define(owner, name, { value, writable: true, configurable: true, enumerable: false });
function give(owner, members) {
  for (const name of keysOf(members)) {
    const value = members[name];
    if (typeof value === 'function') nativeNames.set(value, name);
    hide(owner, name, value);
  }
}

// The interpreter looks at its clock once in ten thousand jumps. A built-in function that works on much data takes one
// jump, so those that can take long make it look.
const lookAtClock = () => { for (let i = 0; i < 10001; i++); };
const MUCH = 20000, TOO_MUCH = 40000000;
function guardMethods(owner, names) {
  for (const name of names) {
    const native = owner[name];
    if (!native) continue;
    give(owner, { [name]: function (...given) {
      let size = this == null ? 0 : +this.length || 0;
      const first = given[0];
      if (first != null && typeof first === 'object') size += +first.length || 0;
      else if (typeof first === 'number' && name === 'repeat') size *= first;
      else if (typeof first === 'number' && (name === 'padStart' || name === 'padEnd')) size += first;
      if (size > MUCH) { if (size > TOO_MUCH) throw new RangeError('Invalid array length'); lookAtClock(); }
      return apply(native, this, given);
    } });
  }
}
guardMethods(String.prototype, ['repeat', 'padStart', 'padEnd', 'split', 'normalize', 'replaceAll', 'concat']);
guardMethods(Array.prototype, ['join', 'concat', 'fill', 'indexOf', 'lastIndexOf', 'includes', 'reverse', 'sort', 'slice',
  'splice', 'copyWithin', 'toReversed', 'toSorted', 'toSpliced', 'with', 'shift', 'unshift', 'flat', 'toString']);
guardMethods(Object.getPrototypeOf(Bytes).prototype, ['join', 'fill', 'sort', 'reverse', 'set', 'indexOf', 'includes',
  'lastIndexOf', 'slice', 'copyWithin', 'toLocaleString']);

// What nobody knows: every property, call and construction of it is another one. Functions that are given to it are
// called, as a library that is not here would do; what else is given to it is noted.
function makeAnything(name, text = '') {
  const kept = makeObject(null);
  const proxy = new NativeProxy(function () {}, {
    get(_, key) {
      if (key in kept) return kept[key];
      if (key === Symbol.toPrimitive) return () => text;
      if (key === Symbol.iterator) return function* () {};
      if (typeof key === 'symbol' || key === 'then' || key === 'toJSON') return undefined;
      if (key === 'toString' || key === 'valueOf') return () => text;
      if (key === 'length') return 0;
      if (key === 'prototype') return kept[key] = {};
      return kept[key] = makeAnything(name.length < 60 ? name + '.' + key : name, text);
    },
    set(_, key, value) { if (typeof key !== 'symbol') kept[key] = value; takeGiven(name + '.' + toText(key), [value]); return true; },
    has: () => true,
    apply(_, self, given) { takeGiven(name, given); return makeAnything(name.length < 60 ? name + '()' : name, text); },
    construct(_, given) { takeGiven(name, given); return makeAnything(name); },
    getPrototypeOf: () => Object.prototype, ownKeys: () => ['length', 'name', 'prototype'], deleteProperty: () => true,
  });
  return proxy;
}
// What a server answers is not known; it bears a mark, so that it is found again where the page writes or runs it.
const makeAnswer = () => makeAnything('answer', ANSWER);
// As code it is a name.
for (const mark of [ANSWER, SECRET]) define(window, mark, { configurable: false, get() { note('code', 'eval', mark); return undefined; } });
give(JSON, { parse(text, ...given) { return typeof text === 'string' && text.indexOf(ANSWER) >= 0 || text && text[Symbol.toPrimitive] && toText(text) === ANSWER ? makeAnswer() : parseJson(text, ...given); } });
function takeGiven(name, given) {
  for (let i = 0; i < given.length && i < 12; i++) {
    const value = given[i];
    if (typeof value === 'function') addTask(() => value(makeEvent(name, window)), 'user');
    else if (typeof value === 'string') { if (value.length > 3) note('given', name, value); }
    else if (value && typeof value === 'object') takeObject(name, value, 0);
  }
}
function takeObject(name, value, depth) {
  if (value instanceof Blob) { noteSave(value, value.name || ''); return; }
  let seen = 0;
  try {
    for (const key of keysOf(value)) {
      if (++seen > 30) return;
      const inner = value[key];
      if (typeof inner === 'function') addTask(() => inner(makeAnswer()), 'user');
      else if (typeof inner === 'string') { if (inner.length > 3) note('given', name + '.' + key, inner); }
      else if (inner && typeof inner === 'object' && depth < 2) takeObject(name + '.' + key, inner, depth + 1);
    }
  } catch (fault) { /* a getter of the page */ }
}

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
nativeNames.set(StandInDate, 'Date');
let seed = 20240229;
const random = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
give(Math, { random });

// Events, timers and other work for later. Each task is called once; `who` says whether the reader must act for it.
const tasks = setPrototype([], null);
let taskPlace = 0, called = 0, calledBefore = 0;
function addTask(run, who, at) {
  if (tasks.length < 20000) tasks[tasks.length] = { run, who: who || trigger, at: at === undefined ? now : at };
  else isCut = true;
}
function runTasks(who) {
  let ran = 0;
  calledBefore = called;
  while (called < MAX_TASKS) {
    let best = -1;
    for (let i = taskPlace; i < tasks.length; i++) {
      const task = tasks[i];
      if (task && task.who === who && (best < 0 || task.at < tasks[best].at)) best = i;
      if (best >= 0 && i - best > 60) break;
    }
    if (best < 0) break;
    const task = tasks[best];
    tasks[best] = null;
    while (taskPlace < tasks.length && !tasks[taskPlace]) taskPlace++;
    called++; ran++;
    if (task.at > now) now = task.at;
    attempt(task.run, who);
    if (who === 'user' && ran >= 200) break;
  }
  if (called >= MAX_TASKS) isCut = true;
  return ran;
}
function attempt(run, who) {
  const before = trigger;
  trigger = who;
  try { return run(); } catch (fault) {
    const missing = findMissing(fault);
    if (missing && giveMissing(missing)) try { return run(); } catch (other) { noteError(other); } else noteError(fault);
  } finally { trigger = before; }
  return undefined;
}
function findMissing(fault) {
  try { const match = fault && fault.name === 'ReferenceError' && /^'?([\w$]{1,80})'? is not defined/.exec(fault.message); return match ? match[1] : ''; } catch (other) { return ''; }
}

let timers = 0;
const stopped = new NativeMap(), intervals = new NativeMap();
function startTimer(work, delay, given, again) {
  const number = ++timers;
  const count = intervals.get(work) || 0;
  if (again && count >= MAX_INTERVAL) return number;
  if (again) intervals.set(work, count + 1);
  const at = now + Math.min(Math.max(+delay || 0, 0), 86400000);
  const once = left => addTask(() => {
    if (stopped.has(number)) return;
    if (left > 1) once(left - 1);
    if (typeof work === 'function') apply(work, window, given); else runCode(toText(work), 'timer');
  }, trigger, again ? now + (+delay || 0) : at);
  once(again ? MAX_INTERVAL : 1);
  return number;
}
const stopTimer = number => { stopped.set(number, 1); };

// Code that is made of a string at run time. `import()` has no loader here, so it becomes a call of ours.
const IMPORT = /(^|[^\w$.])import\s*\(/g;
const prepareCode = source => {
  source = toText(source);
  return source.indexOf('import') < 0 ? source : source.replace(IMPORT, '$1__importData(');
};
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
  nativeNames.set(made, constructor.name);
  return made;
}
window.Function = makeFunction(NativeFunction);
const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor;
makeFunction(AsyncFunction);
makeFunction(Object.getPrototypeOf(function* () {}).constructor);

const USER_EVENTS = new Set(('click dblclick mousedown mouseup mousemove mouseover mouseenter mouseleave mouseout touchstart touchend ' +
  'touchmove pointerdown pointerup pointermove pointerenter keydown keyup keypress input change focus blur focusin focusout submit ' +
  'reset copy cut paste scroll wheel contextmenu dragstart drop dragover beforeunload unload pagehide select invalid ' +
  'auxclick visibilitychange beforeinput beforecopy').split(' '));
const registered = setPrototype([], null);

class Event {
  constructor(type, given) { this.type = toText(type); this.defaultPrevented = false; this.isTrusted = true; Object.assign(this, given || {}); }
  preventDefault() { this.defaultPrevented = true; if (this.watch) this.watch(); }
  stopPropagation() {}
  stopImmediatePropagation() {}
  composedPath() { return [this.target, document, window]; }
  initEvent(type) { this.type = toText(type); }
  initMouseEvent(type) { this.type = toText(type); }
  initCustomEvent(type, bubbles, cancelable, detail) { this.type = toText(type); this.detail = detail; }
  getModifierState() { return false; }
  get returnValue() { return !this.defaultPrevented; }
  set returnValue(value) { if (value === false) this.preventDefault(); }
}
const KEYS = [{ key: 'F12', code: 'F12', keyCode: 123, which: 123 }, { key: 'u', code: 'KeyU', keyCode: 85, which: 85, ctrlKey: true },
  { key: 'Enter', code: 'Enter', keyCode: 13, which: 13 }, { key: 'Escape', code: 'Escape', keyCode: 27, which: 27 }];
function makeEvent(type, target) {
  const event = new Event(type, { bubbles: true, cancelable: true, button: 0, buttons: 1, clientX: 321, clientY: 204, pageX: 321, pageY: 204,
    screenX: 400, screenY: 300, movementX: 3, movementY: 2, deltaY: 40, detail: 1, timeStamp: 1500, key: 'a', code: 'KeyA', keyCode: 65,
    which: 65, ctrlKey: false, shiftKey: false, altKey: false, metaKey: false, data: '', lengthComputable: false, persisted: false,
    touches: [{ clientX: 321, clientY: 204 }], origin: 'null', source: window, state: null, newURL: '', oldURL: '' });
  event.target = event.currentTarget = event.srcElement = target;
  event.clipboardData = event.dataTransfer = { types: [], items: [], files: [], getData: () => '', clearData() {},
    setData(kind, text) { note('clipboard', text, type === 'copy' || type === 'cut' ? 'event' : trigger); } };
  return event;
}
// Call one listener as its event would, keys several times; blocking of the keys that show a page's source is noted.
function callListener(target, type, listener) {
  const call = event => {
    const result = typeof listener === 'function' ? apply(listener, target, [event]) : listener.handleEvent(event);
    if (result === false) event.preventDefault();
    return event;
  };
  if (type === 'keydown' || type === 'keyup' || type === 'keypress') {
    for (const key of KEYS) {
      const event = Object.assign(makeEvent(type, target), key);
      if (key.key === 'F12' || key.ctrlKey) event.watch = () => noteOnce('blocks', key.key);
      call(event);
    }
    return undefined;
  }
  const event = makeEvent(type, target);
  if (type === 'contextmenu') event.watch = () => noteOnce('blocks', 'menu');
  return call(event);
}
function register(target, type, listener) {
  if (!listener) return;
  if (registered.length > 4000) { isCut = true; return; }
  type = toText(type);
  registered[registered.length] = { target, type, listener };
  const lasting = type === 'click' || type === 'mousemove' || type === 'keydown' ? 3 : 1;
  const who = USER_EVENTS.has(type) ? 'user' : 'load';
  const at = type === 'submit' ? now + 5000 : type === 'beforeunload' || type === 'unload' || type === 'pagehide' ? now + 9000 : undefined;
  for (let i = 0; i < lasting; i++) {
    addTask(() => {
      if (who === 'user') fillInputs();
      const event = callListener(target, type, listener);
      if (type === 'submit' && event && !event.defaultPrevented && target.submit) sendForm(target);
    }, who, i ? now + 3000 * i : at);
  }
}
class EventTarget {
  addEventListener(type, listener) { register(this, type, listener); }
  removeEventListener() {}
  attachEvent(type, listener) { register(this, toText(type).slice(2), listener); }
  dispatchEvent(event) {
    const type = event && event.type;
    if (event && typeof event === 'object') { event.target = event.target || this; event.currentTarget = this; }
    let count = 0;
    for (let i = 0; i < registered.length && count < 50; i++) {
      const each = registered[i];
      if (each.type === type && (each.target === this || each.target === window || each.target === document)) {
        count++;
        typeof each.listener === 'function' ? apply(each.listener, each.target, [event]) : each.listener.handleEvent(event);
      }
    }
    if (type === 'click' && this.click && count === 0) this.click();
    return !(event && event.defaultPrevented);
  }
}
const HANDLERS = ('abort animationend animationiteration animationstart beforeunload blur canplay change click contextmenu copy cut dblclick ' +
  'drag dragend dragover dragstart drop ended error focus hashchange input invalid keydown keypress keyup load loadeddata loadend ' +
  'loadstart message messageerror mousedown mouseenter mouseleave mousemove mouseout mouseover mouseup open close offline online pagehide ' +
  'pageshow paste play pointerdown pointermove pointerup popstate progress readystatechange reset resize scroll select storage submit ' +
  'success toggle touchend touchmove touchstart transitionend unload unhandledrejection upgradeneeded wheel begin end timeout').split(' ');
function addHandlers(owner) {
  for (const type of HANDLERS) {
    const key = Symbol(type);
    define(owner, 'on' + type, { configurable: true, enumerable: true,
      get() { return this[key] || null; },
      set(value) { this[key] = value; if (typeof value === 'function') register(this, type, value); } });
  }
}
addHandlers(EventTarget.prototype);
