// A reader of markup for what scripts write; the page itself was read before.

// A reader of markup for what scripts write; the page itself was read before.
const TAG = /<!--([\s\S]*?)(?:-->|$)|<(\/?)([a-zA-Z][^\s\/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>|<[!?][^>]*>?/g;
const MARK = /([^\s=\/"'<>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?/g;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: '\'', nbsp: '\u00a0' };
const unescapeText = text => text.indexOf('&') < 0 ? text : text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|\w{2,8});?/gi, (all, name) => {
  if (name[0] !== '#') return name.toLowerCase() in ENTITIES ? ENTITIES[name.toLowerCase()] : all;
  const code = name[1] === 'x' || name[1] === 'X' ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
  return code < 0x110000 ? String.fromCodePoint(code) : '\ufffd';
});
function readMarkup(html, root, isWritten) {
  html = toText(html).slice(0, 3000000);
  let place = 0, count = 0, open = [root];
  const add = node => {
    const above = open[open.length - 1], parent = above.localName === 'template' ? above.content : above;
    parent.$list.push(node); node.parentNode = parent;
  };
  TAG.lastIndex = 0;
  for (let match; (match = TAG.exec(html)) && ++count < 20000;) {
    if (match.index > place) add(new Text(unescapeText(html.slice(place, match.index))));
    place = TAG.lastIndex;
    if (match[1] !== undefined) { add(new Comment(match[1])); continue; }
    if (match[3] === undefined) continue;
    const name = match[3].toLowerCase();
    if (match[2]) {
      for (let i = open.length - 1; i > 0; i--) if (open[i].localName === name) { open.length = i; break; }
      continue;
    }
    const element = makeElement(name);
    MARK.lastIndex = 0;
    for (let mark; (mark = MARK.exec(match[4]));) {
      const key = mark[1].toLowerCase();
      if (!(key in element.$marks)) element.$marks[key] = unescapeText(mark[2] !== undefined ? mark[2] : mark[3] !== undefined ? mark[3] : mark[4] || '');
    }
    add(element);
    if (VOID.has(name) || (match[4] && match[4].endsWith('/') && name !== 'script')) continue;
    if (RAW.has(name)) {
      const rest = html.slice(place), end = rest.search(new RegExp('</' + name + '[\\s/>]', 'i'));
      const text = end < 0 ? rest : rest.slice(0, end);
      if (text) { const inside = new Text(name === 'textarea' || name === 'title' ? unescapeText(text) : text); element.$list.push(inside); inside.parentNode = element; }
      place = end < 0 ? html.length : html.indexOf('>', place + end) + 1 || html.length;
      TAG.lastIndex = place;
    } else if (open.length < 300) open.push(element);
    if (open.length === 1) place = TAG.lastIndex;
  }
  if (place < html.length) add(new Text(unescapeText(html.slice(place))));
  for (const node of slice(root.$list)) connectTree(node, isWritten);
}
function connectTree(node, runsScripts) {
  connectNode(node, runsScripts);
  if (node.$list.length) visit(node, each => { connectNode(each, runsScripts); });
}
function setMarkup(node, html, root) {
  html = toText(html);
  if (node.localName === 'script') { node.textContent = html; return; }
  if (html.length > 12 && (html.indexOf('<') >= 0 || html.startsWith(ANSWER) || html.startsWith(SECRET))) note('markup', html, trigger);
  readMarkup(html, root, false);
}
// What is written in pieces is read once its last tag and its last script have an end.
let unwritten = '';
function writePage(html) {
  html = unwritten + toText(html);
  const end = html.slice(-20000), open = end.lastIndexOf('<');
  if (html.length < 2000000 && end.length < 20000 && (end.indexOf('>', open) < 0 && open >= 0 && /^<(?:[a-z!\/]|$)/i.test(end.slice(open)) || /<script\b/i.test(end) && !/<\/script\s*>\s*[^]*$/i.test(end.slice(end.toLowerCase().lastIndexOf('<script'))))) {
    if (!unwritten) addTask(() => writeRest(), 'load');
    unwritten = html;
    return;
  }
  unwritten = '';
  writeWhole(html);
}
function writeRest() { const html = unwritten; unwritten = ''; if (html) writeWhole(html); }
function writeWhole(html) {
  written += html;
  note('write', html, trigger);
  const root = document.body || document;
  readMarkup(html, root, true);
}
