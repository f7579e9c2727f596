// Addresses: their parts, what they hold, where they lead.

const SCHEME = /^\s*([a-z][a-z0-9+.-]*):/i;
function hasScheme(text) { return SCHEME.test(text); }
function splitAddress(text) {
  text = toText(text).trim();
  const match = /^([a-z][a-z0-9+.-]*:)?(?:[\/\\]{2}(?:([^@\/\\?#]*)@)?([^\/\\?#]*))?([^?#]*)(\?[^#]*)?(#[\s\S]*)?$/i.exec(text.slice(0, 20000)) || [];
  const host = match[3] || '', place = host.lastIndexOf(':'), hasPort = place > 0 && /^\d*$/.test(host.slice(place + 1));
  const protocol = (match[1] || '').toLowerCase();
  return { protocol, host, hostname: hasPort ? host.slice(0, place) : host, port: hasPort ? host.slice(place + 1) : '', pathname: match[4] || (host ? '/' : ''), search: match[5] || '', hash: match[6] || '',
    origin: host ? protocol + '//' + host : 'null', username: match[2] || '', password: '' };
}
function resolveAddress(text, base) {
  text = toText(text).trim();
  if (hasScheme(text)) return text;
  base = base === undefined ? baseAddress : toText(base);
  if (text.startsWith('//')) return (splitAddress(base).protocol || 'https:') + text;
  if (!text) return base;
  const parts = splitAddress(base);
  const root = parts.protocol + '//' + parts.host;
  if (text[0] === '/') return root + text;
  if (text[0] === '#') return base.replace(/#[\s\S]*$/, '') + text;
  if (text[0] === '?') return root + parts.pathname + text;
  return root + parts.pathname.replace(/[^\/]*$/, '') + text;
}
// Addresses of pictures that stand in the page, most of them many times; those whose pixels are known have no second.
const shown = new NativeMap();
function noteImage(address) { if (!images.has(address) && images.size < 60) { images.add(address); note('request', 'GET', address, '', 'image', trigger); } else if (/typed|secret/i.test(address)) note('request', 'GET', address, '', 'image', trigger); }
function loadSource(node, target) {
  target = toText(target);
  const name = node.localName;
  if (isScriptLink(target)) { addTask(() => { const made = runCode(readScriptLink(target), 'link'); if (typeof made === 'string' && name === 'iframe') writePage(made); }); return; }
  if (name === 'img' || name === 'image') { if (isLoading && shown.has(target)) return; if (isLoading) shown.set(target, 1); if (!/^(?:data|blob|cid):/i.test(target.trim())) noteImage(resolveAddress(target)); const known = pixelsOf(target); if (known) { hide(node, 'pixels', known); shown.delete(target); } }
  else if (name === 'iframe' || name === 'frame' || name === 'object' || name === 'embed') { if (!showAddress(target, 'frame') && !/^\s*about:/i.test(target)) note('frame', resolveAddress(target), trigger); }
  else if (!/^(?:data|blob):/i.test(target)) note('request', 'GET', resolveAddress(target), '', name, trigger);
}
