// Forms and clicks, as the reader would use them.

// Forms and clicks, as the reader would use them: fields are filled with marks that are looked for in what is sent.
function fillInputs() {
  if (!hasNewInputs || filled.size > 300) return;
  hasNewInputs = false;
  visit(document, node => {
    if (node.nodeType !== 1 || filled.has(node)) return;
    if (node.localName !== 'input' && node.localName !== 'textarea') return;
    filled.add(node);
    const kind = (node.$marks.type || 'text').toLowerCase();
    if (kind === 'checkbox' || kind === 'radio') node.$marks.checked = '';
    if (kind === 'range') hide(node, 'typed', node.$marks.max || '100');
    if (/^(?:hidden|submit|button|checkbox|radio|reset|image|file|range|color|date)$/.test(kind) || node.value) return;
    hide(node, 'typed', typedInto(node));
  });
}
const isSecret = node => (node.$marks.type || '').toLowerCase() === 'password' || /pass|pwd|secret|pin\b|kennwort|contrase|senha|mot.?de.?passe/i.test((node.$marks.name || '') + ' ' + (node.$marks.id || '') + ' ' + (node.$marks.placeholder || '')) || /text-security/.test(node.$marks.style || '');
const typedInto = node => isSecret(node) ? PASSWORD : /mail|user|login|account|konto/i.test((node.$marks.type || '') + (node.$marks.name || '') + (node.$marks.id || '') + (node.$marks.placeholder || '')) ? ACCOUNT : TYPED;
// Type a text that the page asks for into its fields; return what undoes that.
function typeInto(text) {
  const before = [];
  visit(document, node => { if (node.nodeType === 1 && (node.localName === 'input' || node.localName === 'textarea') && before.length < 50 && node.$marks.type !== 'hidden') { before.push([node, node.typed]); hide(node, 'typed', text); } });
  return () => { for (const [node, typed] of before) hide(node, 'typed', typed); };
}
function sendForm(form) {
  if (!form || form.localName !== 'form') { form = form && form.closest ? form.closest('form') : null; }
  if (!form) return;
  let body = '';
  for (const node of selectAll(form, 'input,textarea,select')) body += '&' + (node.$marks.name || '') + '=' + node.value;
  note('request', (form.$marks.method || 'GET').toUpperCase(), form.action, body.slice(1), 'form', trigger);
}
function clickElement(node) {
  for (let i = 0, count = 0; i < registered.length && count < 20; i++) {
    const each = registered[i];
    if (each.type === 'click' && each.target === node) { count++; const event = callListener(node, 'click', each.listener); if (event && event.defaultPrevented) return; }
  }
  for (let inner = node; inner && inner.nodeType === 1; inner = inner.parentNode) {
    if (inner.localName === 'a' || inner.localName === 'area') {
      const target = inner.$marks.href || inner.$marks['xlink:href'];
      if (target === undefined) return;
      if (isScriptLink(target)) runCode(readScriptLink(target), 'link');
      else if ('download' in inner.$marks || /^(?:blob|data):/i.test(target)) saveAddress(target, inner.$marks.download || '');
      else follow(target, 'click');
      return;
    }
    if ((inner.localName === 'button' && (inner.$marks.type || 'submit') === 'submit') || (inner.localName === 'input' && /submit|image/.test(inner.$marks.type || ''))) { if (inner.form) sendForm(inner.form); return; }
  }
}
