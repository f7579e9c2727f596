// The object `navigator`.

const userAgent = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const locate = call => addTask(() => call({ coords: { latitude: 52.5, longitude: 13.4, accuracy: 50 }, timestamp: now }));
const navigator = { userAgent, appVersion: '5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36', appName: 'Netscape', appCodeName: 'Mozilla', product: 'Gecko', productSub: '20030107', platform: 'Win32', vendor: 'Google Inc.', vendorSub: '', language: 'en-US', languages: ['en-US', 'en'],
  onLine: true, cookieEnabled: true, doNotTrack: null, maxTouchPoints: 0, hardwareConcurrency: 8, deviceMemory: 8, pdfViewerEnabled: true, plugins: [{ name: 'PDF Viewer' }, { name: 'Chrome PDF Viewer' }, { name: 'Chromium PDF Viewer' }], mimeTypes: [{ type: 'application/pdf' }, { type: 'text/pdf' }],
  userAgentData: { brands: [{ brand: 'Chromium', version: '126' }], mobile: false, platform: 'Windows', getHighEntropyValues: () => resolved({ platform: 'Windows', platformVersion: '15.0.0', architecture: 'x86' }) },
  connection: { effectiveType: '4g', rtt: 50, downlink: 10, addEventListener() {} }, geolocation: { getCurrentPosition(call) { locate(call); }, watchPosition(call) { locate(call); return 1; }, clearWatch() {} }, serviceWorker: { register(address) { makeRequest('GET', address, '', 'worker'); return resolved(makeAnything('registration')); }, ready: new NativePromise(() => {}), addEventListener() {}, controller: null },
  permissions: { query: () => resolved({ state: 'granted', addEventListener() {} }) }, mediaDevices: { getUserMedia: () => rejected(new Error('NotAllowedError')), enumerateDevices: () => resolved([]) }, credentials: { get: given => resolved(given && given.password ? { type: 'password', id: ACCOUNT, name: ACCOUNT, password: PASSWORD } : makeAnything('credential')), store: () => resolved(), create: () => resolved(makeAnything('credential')), preventSilentAccess: () => resolved() }, storage: { getDirectory: () => resolved(makeFolder()), estimate: () => resolved({ quota: 1e9, usage: 1e4 }), persist: () => resolved(true) },
  clipboard: { writeText(text) { note('clipboard', text, trigger); return resolved(); }, readText: () => resolved(''), read: () => resolved([]), write(items) { for (const item of items || []) if (item && item.given) for (const type of keysOf(item.given)) resolved(item.given[type]).then(blob => note('clipboard', isBlob(blob) ? decodeUtf8(blob.bytes) : blob, 'load')); return resolved(); } },
  javaEnabled: () => false, sendBeacon(address, body) { makeRequest('POST', address, body, 'beacon'); return true; }, vibrate: () => true, share(given) { takeObject('navigator.share', given || {}, 0); return resolved(); }, canShare: () => true,
  msSaveBlob(blob, name) { if (isBlob(blob)) noteSave(blob, toText(name)); return true; }, msSaveOrOpenBlob(blob, name) { return navigator.msSaveBlob(blob, name); },
  registerProtocolHandler() {}, getBattery: () => resolved({ level: 0.8, charging: true, addEventListener() {} }), getGamepads: () => [], requestMediaKeySystemAccess: () => rejected(new Error('NotSupportedError')) };
define(navigator, 'webdriver', { enumerable: true, configurable: true, get() { noteOnce('looks', 'webdriver'); return false; } });

class ClipboardItem { constructor(given) { hide(this, 'given', given); this.types = keysOf(given || {}); } getType(type) { return resolved(this.given[type]); } }
tag(navigator, 'Navigator');
function readNavigator() { return navigator; }
