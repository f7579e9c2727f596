// Attributes that do something when they are set, handlers and links that are code.

function setMark(node, name, value) {
  const old = node.$marks[name];
  node.$marks[name] = value;
  if (node.attributeChangedCallback && customs.size) { const own = node.constructor.observedAttributes; if (own && own.indexOf && own.indexOf(name) >= 0) attempt(() => node.attributeChangedCallback(name, old === undefined ? null : old, value), trigger); }
  if (name[0] === 'o' && name[1] === 'n') registerMark(node, name, value);
  else if (name === 'href' && isScriptLink(value)) registerLink(node, value);
  else if (name === 'src' || (name === 'data' && node.localName === 'object')) { if (node.localName === 'script') { if (node.isKnown) queueScript(node); } else loadSource(node, value); }
  else if (name === 'srcdoc') { note('markup', value, trigger); readMarkup(value, makeFragment(), true); }
  else if (name === 'style') { if (node.look) node.look.cssText = value; }
  else if (name === 'id' || name === 'name') nameElement(node);
}
function readScriptLink(text) { const code = toText(text).replace(/^[^:]*:/, ''); try { return decodeURIComponent(code); } catch (fault) { return code; } }
function registerLink(node, text) { register(node, 'click', () => { const made = runCode(readScriptLink(text), 'link'); if (typeof made === 'string') writePage(made); }); }
function registerMark(node, key, code) {
  const run = event => { note('code', 'handler', code); return apply(new NativeFunction('event', prepareCode(code)), node, [event]); };
  register(node, key.slice(2).toLowerCase(), run, true);
}
