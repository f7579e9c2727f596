// Scripts and elements of the page's own classes that come into the document.

function queueScript(node) {
  if (node.isQueued) return;
  const type = (node.$marks.type || '').trim().toLowerCase(), source = node.$marks.src || node.$marks.href || node.$marks['xlink:href'] || '';
  if (type && !/(?:java|ecma|j|live)script|^module$|babel/.test(type)) return;
  if (source) {
    hide(node, 'isQueued', true);
    const content = readAddress(source);
    if (content !== null) addScript(node, content);
    else { note('request', 'GET', resolveAddress(source), '', 'script', trigger); takeLibrary(source); }
    addTask(() => { if (node.onload) callListener(node, 'load', node.onload); });
    return;
  }
  const text = collectText(node);
  if (text.trim()) { hide(node, 'isQueued', true); addScript(node, text); }
}
function addScript(node, text) { if (queued.length < 500) { note('code', 'script', text); queued[queued.length] = { node, text: prepareCode(text), isModule: node.$marks.type === 'module' }; } }

// A class of the page extends HTMLElement; the element gets the methods of the class, and the constructor is called.
function callCustom(node, custom) {
  addTask(() => {
    upgradeNode(node, custom);
    if (node.connectedCallback) node.connectedCallback();
  });
}
const upgraded = new WeakSet();
function upgradeNode(node, custom) {
  if (upgraded.has(node)) return;
  upgraded.add(node);
  setPrototype(node, custom.prototype);
  pendingName = node.localName;
  try { const made = new custom(); for (const key of keysOf(made)) if (!(key in node)) node[key] = made[key]; if (made.shadow) hide(node, 'shadow', made.shadow); } catch (fault) { noteError(fault); }
  pendingName = '';
  if (node.attributeChangedCallback) for (const name of keysOf(node.$marks)) node.attributeChangedCallback(name, null, node.$marks[name]);
}
