// Events and those who listen to them.

// What the reader must do something for. A page may have changed `Set` and `split` before this is compiled.
const USER_EVENTS = { __proto__: null,
  click: 1, dblclick: 1, mousedown: 1, mouseup: 1, mousemove: 1, mouseover: 1, mouseenter: 1, mouseleave: 1,
  mouseout: 1, touchstart: 1, touchend: 1, touchmove: 1, pointerdown: 1, pointerup: 1, pointermove: 1, pointerenter: 1,
  keydown: 1, keyup: 1, keypress: 1, input: 1, change: 1, focus: 1, blur: 1, focusin: 1, focusout: 1, submit: 1,
  reset: 1, copy: 1, cut: 1, paste: 1, scroll: 1, wheel: 1, contextmenu: 1, dragstart: 1, drop: 1, dragover: 1,
  beforeunload: 1, unload: 1, pagehide: 1, select: 1, invalid: 1, auxclick: 1, visibilitychange: 1, beforeinput: 1,
  beforecopy: 1 };

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
  { key: 'Enter', code: 'Enter', keyCode: 13, which: 13 }, { key: 'Escape', code: 'Escape', keyCode: 27, which: 27 },
  { key: KEY, code: 'KeyQ', keyCode: 450, which: 450, charCode: 450 }];
function makeEvent(type, target) {
  // One literal, since to copy so many members takes longer than most listeners.
  const event = { __proto__: Event.prototype, type: toText(type), defaultPrevented: false, isTrusted: true,
    bubbles: true, cancelable: true, button: 0, buttons: 1, clientX: 321, clientY: 204, pageX: 321, pageY: 204,
    screenX: 400, screenY: 300, movementX: 3, movementY: 2, deltaY: 400, detail: 1, timeStamp: 1500, key: 'a', code: 'KeyA', keyCode: 65,
    which: 65, ctrlKey: false, shiftKey: false, altKey: false, metaKey: false, data: '', lengthComputable: false, persisted: false,
    pointerType: 'mouse', pointerId: 1, isPrimary: true, pressure: 0.5, reason: lastFault, error: lastFault, message: lastMessage, animationName: '', propertyName: '', elapsedTime: 1,
    touches: [{ clientX: 321, clientY: 204 }], origin: 'null', source: window, state: null, newURL: '', oldURL: '' };
  event.target = event.currentTarget = event.srcElement = target;
  event.clipboardData = event.dataTransfer = { types: [], items: [], files: [], getData: () => '', clearData() {},
    setData(kind, text) { note('clipboard', text, type === 'copy' || type === 'cut' ? 'event' : trigger); } };
  return event;
}

// What a listener compares keys and fields with stands in its source.
const sourceOf = listener => { try { return apply(nativeToString, typeof listener === 'function' ? listener : listener.handleEvent, []).slice(0, 20000); } catch (fault) { return ''; } };
function wantedKeys(listener) {
  const found = [], source = sourceOf(listener);
  for (const match of source.matchAll(/\.(key|code)\s*={2,3}\s*["'`]([^"'`]{1,20})["'`]/g)) if (found.length < 6) found.push({ key: match[2], code: match[2] });
  for (const match of source.matchAll(/\.(?:keyCode|which)\s*={2,3}\s*(\d{1,3})/g)) if (found.length < 6) found.push({ key: fromCodes(+match[1]), keyCode: +match[1], which: +match[1] });
  return found;
}
function wantedTexts(listener) {
  const found = [];
  for (const match of sourceOf(listener).matchAll(/\.value(?:\.\w{1,20}\(\))?\s*={2,3}\s*["'`]([^"'`\n]{1,60})["'`]/g)) if (found.length < 3) found.push(match[1]);
  return found;
}

// Call one listener as its event would, keys several times; blocking of the keys that show a page's source is noted.
function callListener(target, type, listener, isOwn) {
  const call = event => {
    const result = typeof listener === 'function' ? apply(listener, target, [event]) : listener.handleEvent(event);
    if (result === false) event.preventDefault();
    watch(result, () => addTask(() => call(makeEvent(type, target)), 'user'));
    return event;
  };
  if (type === 'keydown' || type === 'keyup' || type === 'keypress') {
    for (const key of [...KEYS, ...wantedKeys(listener)]) {
      const event = Object.assign(makeEvent(type, target), key);
      if (key.key === 'F12' || key.ctrlKey) event.watch = () => noteOnce('blocks', key.key);
      call(event);
    }
    return undefined;
  }
  if (type === 'visibilitychange') {
    document.hidden = true; document.visibilityState = 'hidden';
    try { call(makeEvent(type, target)); } finally { document.hidden = false; document.visibilityState = 'visible'; }
  }
  const asked = type in USER_EVENTS && !isOwn ? wantedTexts(listener) : [];
  for (let i = 0; i < asked.length; i++) { const undo = typeInto(asked[i]); try { call(makeEvent(type, target)); } finally { undo(); } }
  const event = makeEvent(type, target);
  if (type === 'contextmenu') event.watch = () => noteOnce('blocks', 'menu');
  return call(event);
}
// `isOwn` says that the listener is a function of the stand-in, whose source tells nothing.
function register(target, type, listener, isOwn) {
  if (!listener) return;
  if (registered.length > 4000) { cut(); return; }
  type = toText(type);
  registered[registered.length] = { target, type, listener };
  const lasting = type === 'click' || type === 'mousemove' || type === 'keydown' || type === 'wheel' || type === 'scroll' || type === 'pointermove' || type === 'touchmove' ? 3 : 1;
  const who = type in USER_EVENTS ? 'user' : 'load';
  const at = type === 'submit' ? now + 5000 : type === 'beforeunload' || type === 'unload' || type === 'pagehide' ? now + 9000 : undefined;
  for (let i = 0; i < lasting; i++) {
    addTask(() => {
      if (who === 'user' && hasNewInputs) fillInputs();
      const event = callListener(target, type, listener, isOwn);
      if (type === 'submit' && event && !event.defaultPrevented && target.submit) sendForm(target);
    }, who, i ? now + 3000 * i : at);
  }
}
function dispatchTo(target, event) {
  const type = event && event.type;
  if (event && typeof event === 'object') { event.target = event.target || target; event.currentTarget = target; }
  let count = 0;
  for (let i = 0; i < registered.length && count < 50; i++) {
    const each = registered[i];
    if (each.type === type && (each.target === target || each.target === window || each.target === document)) {
      count++;
      typeof each.listener === 'function' ? apply(each.listener, each.target, [event]) : each.listener.handleEvent(event);
    }
  }
  if (type === 'click' && target.click && count === 0) target.click();
  return !(event && event.defaultPrevented);
}

// Classes of events that have nothing of their own.
function makeEventClass(name) { const made = class extends Event {}; define(made, 'name', { value: name }); return made; }
function newEvent(type) { return new Event(type); }
tag(Event.prototype, 'Event');
