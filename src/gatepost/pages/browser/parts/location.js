// The address of the page, which is a file of the reader.

const made = makeObject(null);
const places = { href: PAGE, protocol: 'file:', host: '', hostname: '', port: '', pathname: '/C:/Users/Reader/Downloads/page.html', search: '', hash: '', origin: 'null' };
const setMember = (key, value) => {
  if (key === 'href') follow(value, 'location');
  else if (key !== 'hash') noteOnce('go', toText(value));
  else {
    places.hash = toText(value).replace(/^#?/, value === '' ? '' : '#');
    for (let i = 0; i < registered.length; i++) if (registered[i].type === 'hashchange') callListener(registered[i].target, 'hashchange', registered[i].listener);
  }
};
const PLACES = keysOf(places);
for (let i = 0; i < PLACES.length; i++) { const key = PLACES[i]; define(made, key, { configurable: true, enumerable: true, get: () => places[key], set(value) { setMember(key, value); } }); }
give(made, { assign(value) { follow(value, 'location'); }, replace(value) { follow(value, 'location'); }, reload() {}, toString: () => places.href, valueOf() { return this; } });
hide(made, Symbol.toPrimitive, () => places.href);
made.ancestorOrigins = [];
function readLocation() { return made; }
