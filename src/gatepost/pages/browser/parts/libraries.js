// A library that the page loads from elsewhere is not here; what bears its name answers everything.

const LIBRARIES = [[/jquery/i, ['$', 'jQuery']], [/axios/i, ['axios']], [/crypto-?js/i, ['CryptoJS']], [/file-?saver/i, ['saveAs']], [/jszip/i, ['JSZip']], [/pako/i, ['pako']], [/lodash|underscore/i, ['_']], [/emailjs/i, ['emailjs']], [/sweetalert/i, ['Swal', 'swal']]];
function takeLibrary(source) {
  for (const [pattern, names] of LIBRARIES) if (pattern.test(source)) for (const name of names) giveMissing(name);
}
function giveMissing(name) {
  if (name in window) return false;
  lacks(name);
  let value;
  if (name === '$' || name === 'jQuery') { value = makeQuery(); hide(window, '$', value); hide(window, 'jQuery', value); return true; }
  if (name === 'saveAs') value = (blob, file) => { if (isBlob(blob)) noteSave(blob, toText(file === undefined ? blob.name || '' : file)); else saveAddress(blob, toText(file || '')); };
  else value = makeAnything(name);
  hide(window, name, value);
  return true;
}
