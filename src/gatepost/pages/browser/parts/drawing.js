// Drawing.

// Drawing: pixels that are set or come with the page are known, the rest is blank.
const MAX_PIXELS = 4000000;
function pixelsOf(address) { const found = pagePixels[toText(address).trim()]; if (!found) return null; if (!found.data) found.data = viewOf(nativeAtob(found.bytes)); return found; }
const parseColour = text => { const hex = /^#([0-9a-f]{6})/i.exec(text), parts = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)/i.exec(text), short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text); return hex ? [parseInt(hex[1].slice(0, 2), 16), parseInt(hex[1].slice(2, 4), 16), parseInt(hex[1].slice(4), 16)] : short ? [1, 2, 3].map(i => parseInt(short[i] + short[i], 16)) : parts ? [+parts[1], +parts[2], +parts[3]] : text === 'white' ? [255, 255, 255] : [0, 0, 0]; };

class ImageData { constructor(one, two, three) { if (typeof one === 'number') { this.width = one; this.height = two; this.data = new Uint8ClampedArray(Math.min(one * two, MAX_PIXELS) * 4); } else { this.data = one; this.width = two; this.height = three || one.length / 4 / two; } } }
function drawingOn(canvas, kind) {
  if (canvas.drawing) return canvas.drawing;
  if (kind !== '2d') { lacks('canvas ' + kind); return makeAnything('drawing'); }
  const size = () => [Math.max(1, canvas.width | 0 || 300), Math.max(1, canvas.height | 0 || 150)];
  let pixels = null, width = 0;
  const surface = () => { const [w, h] = size(); if (!pixels || width !== w) { if (w * h > MAX_PIXELS) throw new RangeError('canvas'); width = w; pixels = new Uint8ClampedArray(w * h * 4); } return pixels; };
  const put = (source, sw, sh, x, y) => { const own = surface(), h = own.length / 4 / width; x |= 0; y |= 0; for (let row = 0; row < sh && y + row < h; row++) { if (y + row < 0) continue; const take = Math.min(sw, width - x); if (take > 0 && x >= 0) own.set(source.subarray(row * sw * 4, (row * sw + take) * 4), ((y + row) * width + x) * 4); } };
  const fill = (x, y, w, h, shade) => {
    const shades = new Uint32Array(surface().buffer), left = Math.max(0, x | 0), right = Math.min(width, Math.ceil(+x + +w)), bottom = Math.min(shades.length / width, Math.ceil(+y + +h));
    if (left < right) for (let row = Math.max(0, y | 0); row < bottom; row++) shades.fill(shade, row * width + left, row * width + right);
  };
  const known = { canvas, fillStyle: '#000000', fillRect(x, y, w, h) { const [red, green, blue] = parseColour(toText(known.fillStyle)); fill(x, y, w, h, (255 << 24 | blue << 16 | green << 8 | red) >>> 0); },
    clearRect(x, y, w, h) { fill(x, y, w, h, 0); }, getImageData(x, y, w, h) { const own = surface(), out = new ImageData(w, h); for (let row = 0; row < h; row++) { const at = (((y | 0) + row) * width + (x | 0)) * 4; out.data.set(own.subarray(at, at + Math.min(w, width) * 4), row * w * 4); } noteOnce('looks', 'pixels'); return out; },
    putImageData(image, x, y) { put(image.data, image.width, image.height, x, y); }, createImageData: (w, h) => new ImageData(w, h), drawImage(image, ...given) { const source = image && (image.pixels || (image.drawing && image.drawing.own && image.drawing.own())); if (source) put(source.data, source.width, source.height, given.length > 4 ? given[4] : given[0], given.length > 4 ? given[5] : given[1]); else lacks('pixels of a picture'); },
    own: () => ({ data: surface(), width, height: pixels.length / 4 / width }), measureText: text => ({ width: toText(text).length * 7, actualBoundingBoxAscent: 8, actualBoundingBoxDescent: 2 }) };
  const drawing = new NativeProxy(known, { get: (own, key) => key in own ? own[key] : typeof key === 'symbol' ? undefined : own[key] = () => makeGradient, set: (own, key, value) => { own[key] = value; return true; } });
  hide(canvas, 'drawing', drawing);
  return drawing;
}
const makeGradient = { addColorStop() {}, setTransform() {} };
