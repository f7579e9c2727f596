// Functions of the window that few pages use.

class WindowMembers {
  dispatchEvent(event) { return dispatchTo(window, event); }
  attachEvent(type, listener) { register(window, toText(type).slice(2), listener); }
  setImmediate(work, ...given) { return startTimer(work, 0, given, false); }
  requestAnimationFrame(work) { return startTimer(work, 16, [1500], false); }
  requestIdleCallback(work) { return startTimer(work, 1, [{ didTimeout: false, timeRemaining: () => 10 }], false); }
  clearImmediate(number) { stopTimer(number); }
  cancelAnimationFrame(number) { stopTimer(number); }
  cancelIdleCallback(number) { stopTimer(number); }
  alert(text) { note('says', text, trigger); }
  confirm(text) { note('says', text, trigger); return true; }
  prompt(text) { note('says', text, trigger); return PASSWORD; }
  print() {}
  stop() {}
  focus() {}
  blur() {}
  scroll() {}
  scrollTo() {}
  scrollBy() {}
  moveTo() {}
  resizeTo() {}
  close() {}
  find() { return false; }
  open(target) { if (target !== undefined && target !== '') follow(target, 'open'); return frameWindow(makeElement('iframe')); }
  showModalDialog(target) { follow(target, 'open'); }
  navigate(target) { follow(target, 'location'); }
  getComputedStyle(node, pseudo) { return computeStyle(node, pseudo); }
  matchMedia(text) { return { matches: !/dark|print|reduce/.test(toText(text)), media: toText(text), addListener(call) { if (typeof call === 'function') addTask(() => call({ matches: true, media: toText(text) }), 'user'); }, addEventListener(_, call) { if (typeof call === 'function') addTask(() => call({ matches: true, media: toText(text) }), 'user'); }, removeListener() {}, removeEventListener() {} }; }
  getSelection() { return readSelection(); }
  postMessage(data) { addTask(() => { const event = Object.assign(makeEvent('message', window), { data }); for (let i = 0; i < registered.length; i++) if (registered[i].type === 'message' && registered[i].target === window) apply(registered[i].listener, window, [event]); }); }
  structuredClone(value) { if (value instanceof NativeMap || value instanceof Set || value instanceof NativeDate || value instanceof Buffer || isView(value)) return value; try { return parseJson(stringify(value)); } catch (fault) { return value; } }
  reportError(fault) { noteError(fault); }
  createImageBitmap(image) { return resolved(image); }
  importScripts(...all) { for (const each of all) { const text = readAddress(each); if (text !== null) runCode(text, 'import'); } }
  execScript(text) { runCode(text, 'script'); }
  showSaveFilePicker(given) {
    const name = given && given.suggestedName || '';
    const write = part => { noteSave(isBlob(part) ? part : makeBlob([part && part.data !== undefined ? part.data : part]), name); return resolved(); };
    return resolved({ name, createWritable: () => resolved({ write, close: () => resolved(), truncate: () => resolved(), seek: () => resolved() }) });
  }
  showOpenFilePicker() { return rejected(new Error('AbortError')); }
  showDirectoryPicker() { return rejected(new Error('AbortError')); }
  __importData(address) { address = mapAddress(toText(address)); const text = readAddress(address); if (text === null) { note('request', 'GET', resolveAddress(address), '', 'module', trigger); return resolved(makeAnything('module')); } return loadModule(text); }
}
