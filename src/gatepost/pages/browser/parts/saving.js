// What addresses hold and where they lead, and the saving of files.

// The content of data: and blob: addresses; null for all others.
function readAddress(address) {
  const blob = readBlob(address);
  return blob ? decodeUtf8(blob.bytes) : null;
}
function readBlob(address) {
  address = toText(address).trim();
  if (/^blob:/i.test(address)) return objects.get(address) || null;
  const match = /^data:([^,]*),([\s\S]*)$/i.exec(address);
  if (!match) return null;
  let bytes = match[2];
  if (bytes.indexOf('%') >= 0) { try { bytes = unescape(bytes); } catch (fault) { /* as it is */ } }
  if (/;\s*base64\s*$/i.test(match[1])) { try { bytes = nativeAtob(bytes.replace(/\s/g, '')); } catch (fault) { return null; } } else bytes = toUtf8(bytes);
  return makeBlob([viewOf(bytes)], { type: match[1].split(';')[0] });
}

// Note a file that is saved, with its bytes where there was no room for them before.
function noteSave(blob, name) {
  if (!blob.isNoted && blob.bytes.length > 8) hide(blob, 'isNoted', note('saved', blob.number, blob.type, blob.bytes));
  note('save', blob.number, name, trigger, blob.type);
}

// Saving: by a link with `download`, by going to a file, by the functions of old browsers.
function saveAddress(address, name) {
  const blob = readBlob(address);
  if (blob) noteSave(blob, name || blob.name || '');
  else { note('go', resolveAddress(address), 'download', trigger); }
}
const PAGE_TYPES = /html|xml|svg/;
function showAddress(address, how) {
  const blob = readBlob(address);
  if (!blob) return false;
  if (PAGE_TYPES.test(blob.type)) { note('write', decodeUtf8(blob.bytes), trigger); const root = makeFragment(); readMarkup(decodeUtf8(blob.bytes), root, true); }
  else if (how !== 'load') noteSave(blob, '');
  return true;
}
let steps = 0;
function follow(target, how) {
  target = toText(target);
  if (++steps > 200) return;
  let address = target;
  // The page may have broken functions that are used here; the address is noted all the same.
  try {
    if (isScriptLink(target)) { address = ''; const made = runCode(readScriptLink(target), 'link'); if (typeof made === 'string') writePage(made); return; }
    if (showAddress(target, how) || /^\s*(?:#|about:)/i.test(target)) { address = ''; return; }
    address = resolveAddress(target);
  } finally { if (address) note('go', address, how, trigger); }
}
