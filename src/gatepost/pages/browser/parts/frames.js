// Frames.

function frameWindow(node) {
  let made = frameWindows.get(node);
  if (!made) {
    const inside = new Document();
    readMarkup('<html><head></head><body></body></html>', inside, false);
    inside.write = inside.writeln = (...given) => writePage(given.join(''));
    made = new NativeProxy({ document: inside }, { get: (own, key) => key in own ? own[key] : key === 'location' ? readLocation() : key === 'parent' || key === 'top' ? window : window[key], set: (own, key, value) => { if (key === 'location') follow(value, 'frame'); else own[key] = value; return true; }, has: () => true });
    frameWindows.set(node, made);
  }
  return made;
}
let frameCount = 0;
function countFrame(node) {
  if (frameCount > 50) return;
  define(window, toText(frameCount++), { configurable: true, get: () => frameWindow(node) });
  window.length = frameCount;
}
function frameDocument(node) { return frameWindow(node).document; }
