"""Attached pages that carry a file: one function for each trick, which takes the payload and returns the page.

Every page saves its payload under a name when it is opened or used; where a trick hides the payload, `SAVE` turns the
variable `s`, a string with one character for each byte, into a file.
"""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64
import codecs
import gzip
import io
import json
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable

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


def plain_base64(payload: bytes) -> str:
    return script(f"var s=atob('{b64(payload)}');{SAVE}")


def in_template(payload: bytes) -> str:
    return script(
        f"var s=atob(document.querySelector('#t').content.textContent.trim());{QUIET}",
        f"<template id=t>{b64(payload)}</template>",
    )


def in_nested_elements(payload: bytes) -> str:
    pieces = "".join(f"<i><b>{b64(payload)[at : at + 7]}</b></i>" for at in range(0, len(b64(payload)), 7))
    return script(
        f"var s=atob([...document.querySelectorAll('#d b')].map(e=>e.innerText).join(''));{QUIET}",
        f"<div id=d hidden>{pieces}</div>",
    )


def in_attributes(payload: bytes) -> str:
    pieces = "".join(f"<li data-part-one='{b64(payload)[at : at + 9]}'>" for at in range(0, len(b64(payload)), 9))
    return script(
        f"var s='';document.querySelectorAll('li').forEach(e=>s+=e.dataset.partOne);s=atob(s);{QUIET}",
        f"<ul>{pieces}</ul>",
    )


def in_comment(payload: bytes) -> str:
    return script(
        "var w=document.createTreeWalker(document,NodeFilter.SHOW_COMMENT),n,s='';while(n=w.nextNode())if(/^!/.test(n.data))"
        f"s+=n.data.slice(1);s=atob(s);{QUIET}",
        f"<!--!{b64(payload)}-->",
    )


def in_comment_child(payload: bytes) -> str:
    return script(
        f"var s=atob(document.getElementById('k').childNodes[0].nodeValue);{QUIET}",
        f"<div id=k><!--{b64(payload)}--></div>",
    )


def in_custom_property(payload: bytes) -> str:
    return page(
        f"<script>var s=atob(getComputedStyle(document.documentElement).getPropertyValue('--k').trim().slice(1,-1));{QUIET}</script>",
        f"<style>:root{{--k:'{b64(payload)}'}}</style>",
    )


def in_css_content(payload: bytes) -> str:
    return page(
        f"<b id=x></b><script>var s=atob(getComputedStyle(x,'::after').content.replace(/\"/g,''));{QUIET}</script>",
        f'<style>#x::after{{content:"{b64(payload)}"}}</style>',
    )


def rot47(payload: bytes) -> str:
    text = "".join(chr(33 + (ord(char) + 14) % 94) for char in b64(payload))
    return script(
        f"var s=atob({json.dumps(text)}.split('').map(c=>String.fromCharCode(33+(c.charCodeAt()+14)%94)).join(''));{QUIET}"
    )


def rot13(payload: bytes) -> str:
    return script(
        f"var s=atob('{codecs.encode(b64(payload), 'rot13')}'.replace(/[a-z]/gi,c=>String.fromCharCode((c<='Z'?90:122)>=(c=c.charCodeAt()+13)?c:c-26)));{QUIET}"
    )


def big_integer(payload: bytes) -> str:
    number = int.from_bytes(b"\x01" + payload, "big")
    return script(f"var n={number}n,s='';for(;n>1n;n>>=8n)s=String.fromCharCode(Number(n&255n))+s;{QUIET}")


def hangul_fillers(payload: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in payload).replace("0", "\uffa0").replace("1", "\u3164")
    return script(
        f"var s='{bits}'.replace(/.{{8}}/g,b=>String.fromCharCode(parseInt([...b].map(c=>+(c=='\\u3164')).join(''),2)));{QUIET}"
    )


def zero_width(payload: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in payload).replace("0", "\u200b").replace("1", "\u200c")
    return script(
        f"var t=document.getElementById('z').textContent,s='';for(var i=0;i<t.length;i+=8)s+=String.fromCharCode(parseInt(t.substr(i,8).replace(/\\u200b/g,0).replace(/\\u200c/g,1),2));{QUIET}",
        f"<p id=z>{bits}</p>",
    )


def white_space(payload: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in payload).replace("0", " ").replace("1", "\t")
    return script(
        f"var s=document.querySelector('pre').textContent.match(/[ \\t]{{8}}/g).map(b=>String.fromCharCode(parseInt(b.replace(/ /g,0).replace(/\\t/g,1),2))).join('');{QUIET}",
        f"<pre>{bits}</pre>",
    )


def emoji(payload: bytes) -> str:
    text = "".join(chr(0x1F300 + byte) for byte in payload)
    return script(f"var s=[...'{text}'].map(c=>String.fromCharCode(c.codePointAt(0)-0x1f300)).join('');{QUIET}")


def constructor_of_filter(payload: bytes) -> str:
    code = base64.b64encode(f"var s=atob('{b64(payload)}');{SAVE}".encode()).decode()
    return script(f"[]['filter']['constructor'](atob('{code}'))()")


def broken_picture(payload: bytes) -> str:
    code = base64.b64encode(f"var s=atob('{b64(payload)}');{SAVE}".encode()).decode()
    return page(f"<img src=x onerror=\"eval(atob('{code}'))\">")


def data_module(payload: bytes) -> str:
    code = base64.b64encode(f"export const s=atob('{b64(payload)}')".encode()).decode()
    return script(f"import('data:text/javascript;base64,{code}').then(m=>{{var s=m.s;{QUIET}}})")


def static_module(payload: bytes) -> str:
    return page(f"<script type=module>const s=atob(await Promise.resolve('{b64(payload)}'));{QUIET}</script>")


def exclusive_or(payload: bytes) -> str:
    key = b"Kw7!"
    secret = bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))
    return script(
        f"var d=atob('{b64(secret)}'),k='Kw7!',s='';for(var j=0;j<d.length;j++)s+=String.fromCharCode(d.charCodeAt(j)^k.charCodeAt(j%4));{QUIET}"
    )


def stream_cipher(payload: bytes) -> str:
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
    return script(
        f"var k='open sesame',d=atob('{b64(bytes(out))}'),b=[],i=0,j=0,t,s='';for(;i<256;i++)b[i]=i;for(i=0;i<256;i++){{j=(j+b[i]+k.charCodeAt(i%k.length))%256;t=b[i];b[i]=b[j];b[j]=t}}"
        f"i=j=0;for(var y=0;y<d.length;y++){{i=(i+1)%256;j=(j+b[i])%256;t=b[i];b[i]=b[j];b[j]=t;s+=String.fromCharCode(d.charCodeAt(y)^b[(b[i]+b[j])%256])}}{QUIET}"
    )


def backwards(payload: bytes) -> str:
    return script(f"var s=atob('{b64(payload)[::-1]}'.split('').reverse().join(''));{QUIET}")


def shifted_numbers(payload: bytes) -> str:
    return script(
        f"var s=[{','.join(str(byte + 1000) for byte in payload)}].map(n=>String.fromCharCode(n-1000)).join('');{QUIET}"
    )


def string_timer(payload: bytes) -> str:
    code = f"var s=atob('{b64(payload)}');{QUIET}"
    return script(f"setTimeout({json.dumps(code)},4000)")


def countdown(payload: bytes) -> str:
    return script(
        f"var n=5,t=setInterval(function(){{if(--n)return;clearInterval(t);var s=atob('{b64(payload)}');{QUIET}}},1000)"
    )


def after_some_time(payload: bytes) -> str:
    return script(
        f"var begin=Date.now();(function wait(){{if(Date.now()-begin<6000)return setTimeout(wait,500);var s=atob('{b64(payload)}');{QUIET}}})()"
    )


def busy_waiting(payload: bytes) -> str:
    return script(f"var begin=Date.now();while(Date.now()-begin<8000);var s=atob('{b64(payload)}');{QUIET}")


def mouse_moves(payload: bytes) -> str:
    return script(
        f"var n=0;document.addEventListener('mousemove',function(e){{if(!e.isTrusted||++n!=3)return;var s=atob('{b64(payload)}');{QUIET}}})"
    )


def third_click(payload: bytes) -> str:
    return script(
        f"var n=0;document.querySelector('button').onclick=()=>{{if(++n<3)return;var s=atob('{b64(payload)}');{QUIET}}}",
        "<button>Open</button>",
    )


def on_submit(payload: bytes) -> str:
    return script(
        f"f.addEventListener('submit',e=>{{e.preventDefault();if(!f.code.value)return;var s=atob('{b64(payload)}');{QUIET}}})",
        "<form id=f><input name=code placeholder=Code><button>Open</button></form>",
    )


def in_worker(payload: bytes) -> str:
    code = f"onmessage=e=>postMessage(atob(e.data+'{b64(payload)[4:]}'))"
    return script(
        f"var w=new Worker(URL.createObjectURL(new Blob([{json.dumps(code)}])));w.onmessage=e=>{{var s=e.data;{QUIET}}};w.postMessage('{b64(payload)[:4]}')"
    )


def written_script(payload: bytes) -> str:
    code = f"var s=atob('{b64(payload)}');{QUIET}"
    return script(f"document.write('<scr'+'ipt>'+unescape('{urllib.parse.quote(code, safe='')}')+'</scr'+'ipt>')")


def appended_script(payload: bytes) -> str:
    code = f"var s=atob('{b64(payload)}');{QUIET}"
    return script(
        f"var e=document.createElement('script');e.text=atob('{b64(code.encode())}');document.head.appendChild(e)"
    )


def inner_frame(payload: bytes) -> str:
    inner = f"<script>var s=atob('{b64(payload)}');{SAVE}</script>".replace("&", "&amp;").replace('"', "&quot;")
    return page(f'<iframe srcdoc="{inner}"></iframe>')


def data_frame(payload: bytes) -> str:
    inner = f"<body><script>var s=atob('{b64(payload)}');{SAVE}</script>".encode()
    return page(f'<iframe src="data:text/html;base64,{b64(inner)}"></iframe>')


def compressed(payload: bytes) -> str:
    packed = b64(gzip.compress(payload, mtime=0))
    return script(
        f"fetch('data:;base64,{packed}').then(r=>new Response(r.body.pipeThrough(new DecompressionStream('gzip'))).blob()).then(b=>{{var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='x.bin';a.click()}})"
    )


def deflated(payload: bytes) -> str:
    packed = b64(zlib.compress(payload))
    return script(
        f"(async()=>{{const p=Uint8Array.from(atob('{packed}'),c=>c.charCodeAt(0));const b=await new Response(new Blob([p]).stream().pipeThrough(new DecompressionStream('deflate'))).blob();location=URL.createObjectURL(b)}})()"
    )


def fetched_data(payload: bytes) -> str:
    return script(
        f"fetch('data:application/x;base64,{b64(payload)}').then(r=>r.blob()).then(b=>{{const a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='x';a.click()}})"
    )


def requested_data(payload: bytes) -> str:
    return script(
        f"var x=new XMLHttpRequest;x.open('GET','data:;base64,{b64(payload)}');x.responseType='blob';x.onload=function(){{var a=document.createElement('a');a.setAttribute('download','x');a.setAttribute('href',URL.createObjectURL(x.response));a.click()}};x.send()"
    )


def old_browser(payload: bytes) -> str:
    return script(
        f"var s=atob('{b64(payload)}'),u=new Uint8Array(s.length);for(var i in s)u[i]=s.charCodeAt(i);navigator['ms'+'SaveOrOpenBlob'](new Blob([u]),'x.bin')"
    )


def file_reader(payload: bytes) -> str:
    return script(
        f"var s=atob('{b64(payload)}');var r=new FileReader;r.onload=()=>{{var a=document.createElement('a');a.href=r.result;a.download='x.bin';a.click()}};r.readAsDataURL(new File([Uint8Array.from(s,c=>c.charCodeAt(0))],'x.bin'))"
    )


def file_picker(payload: bytes) -> str:
    return script(
        f"document.body.onclick=async()=>{{const h=await showSaveFilePicker({{suggestedName:'x.bin'}}),w=await h.createWritable();await w.write(Uint8Array.from(atob('{b64(payload)}'),c=>c.charCodeAt(0)));await w.close()}}"
    )


def packer(payload: bytes) -> str:
    words = json.dumps(["var", "s", "atob", b64(payload)])
    code = json.dumps("0 1=2('3');" + QUIET)
    return script(
        f"eval(function(p,k){{return p.replace(/^0 1=2\\('3'\\)/,k[0]+' '+k[1]+'='+k[2]+\"('\"+k[3]+\"')\")}}({code},{words}))"
    )


def custom_element(payload: bytes) -> str:
    return script(
        f"customElements.define('in-voice',class extends HTMLElement{{connectedCallback(){{var s=atob(this.getAttribute('part')+this.textContent);{QUIET}}}}})",
        f"<in-voice part='{b64(payload)[:8]}'>{b64(payload)[8:]}</in-voice>",
    )


def shadow_root(payload: bytes) -> str:
    return script(
        f"var r=h.attachShadow({{mode:'open'}});r.innerHTML='<i>{b64(payload)}</i>';var s=atob(r.querySelector('i').textContent);{QUIET}",
        "<div id=h></div>",
    )


def observer(payload: bytes) -> str:
    return script(
        f"new IntersectionObserver(function(all){{if(!all[0].isIntersecting)return;var s=atob('{b64(payload)}');{QUIET}}}).observe(document.body)"
    )


def proxies_and_getters(payload: bytes) -> str:
    return script(
        f"var o=new Proxy({{}},{{get:(t,k)=>({{toString(){{return atob('{b64(payload)}')}}}})}});var s=`${{o.anything}}`;{QUIET}"
    )


def generators(payload: bytes) -> str:
    return script(f"function*g(){{for(const c of '{b64(payload)}')yield c}}var s=atob([...g()].join(''));{QUIET}")


def thrown_strings(payload: bytes) -> str:
    pieces = ",".join(json.dumps(b64(payload)[at : at + 50]) for at in range(0, len(b64(payload)), 50))
    return script(f"var s='';[{pieces}].forEach(p=>{{try{{throw p}}catch(e){{s+=e}}}});s=atob(s);{QUIET}")


def comment_of_function(payload: bytes) -> str:
    return script(f"function f(){{/*{b64(payload)}*/}}var s=atob(f.toString().match(/\\/\\*(.*)\\*\\//)[1]);{QUIET}")


def own_source(payload: bytes) -> str:
    return script(f"/*@{b64(payload)}@*/var s=atob(document.currentScript.textContent.split('@')[1]);{QUIET}")


def json_block(payload: bytes) -> str:
    return script(
        f"var s=atob(JSON.parse(document.getElementById('j').textContent).parts.join(''));{QUIET}",
        f"<script type='application/json' id=j>{json.dumps({'parts': [b64(payload)[:20], b64(payload)[20:]]})}</script>",
    )


def hidden_fields(payload: bytes) -> str:
    return script(
        f"var s=atob(document.forms.q.one.value+document.forms['q'].elements[1].value);{QUIET}",
        f"<form name=q><input type=hidden name=one value='{b64(payload)[:40]}'><input type=hidden name=two value='{b64(payload)[40:]}'></form>",
    )


def named_elements(payload: bytes) -> str:
    return script(
        f"var s=atob(letter.title+rest.alt);{QUIET}",
        f"<b id=letter title='{b64(payload)[:16]}'></b><img id=rest alt='{b64(payload)[16:]}'>",
    )


def table_cells(payload: bytes) -> str:
    cells = "".join(f"<tr><td>{byte}</td></tr>" for byte in payload)
    return script(
        f"var s='';for(const r of document.querySelector('table').rows)s+=String.fromCharCode(+r.cells[0].textContent);{QUIET}",
        f"<table hidden>{cells}</table>",
    )


def select_options(payload: bytes) -> str:
    options = "".join(f"<option value='{b64(payload)[at : at + 12]}'>" for at in range(0, len(b64(payload)), 12))
    return script(
        f"var s=atob(Array.from(document.querySelector('select').options,o=>o.value).join(''));{QUIET}",
        f"<select>{options}</select>",
    )


def wide_decoder(payload: bytes) -> str:
    wide = b64(payload).encode("utf-16-le")
    return script(
        f"var s=atob(new TextDecoder('utf-16le').decode(new Uint8Array([{','.join(map(str, wide))}])));{QUIET}"
    )


def data_view(payload: bytes) -> str:
    padded = payload + bytes(-len(payload) % 4)
    words = [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]
    return script(
        f"var v=new DataView(new ArrayBuffer({len(padded)})),s='';[{','.join(map(str, words))}].forEach((n,i)=>v.setUint32(i*4,n,true));for(var j=0;j<{len(payload)};j++)s+=String.fromCharCode(v.getUint8(j));{QUIET}"
    )


def kept_in_storage(payload: bytes) -> str:
    return script(
        f"localStorage.setItem('k','{b64(payload)}');sessionStorage.k2=localStorage.k;addEventListener('load',()=>{{var s=atob(sessionStorage.getItem('k2'));{QUIET}}})"
    )


def hash_change(payload: bytes) -> str:
    return script(f"onhashchange=()=>{{var s=atob('{b64(payload)}');{QUIET}}};location.hash='go'")


def script_link(payload: bytes) -> str:
    code = urllib.parse.quote(f"var s=atob('{b64(payload)}');{QUIET}void 0", safe="")
    return page(f'<a href="java&#9;script:{code}">Open the invoice</a>')


def script_frame(payload: bytes) -> str:
    return script(
        f"var f=document.createElement('iframe');f.src='javascript:'+unescape('{urllib.parse.quote(f'var s=atob({b64(payload)!r});' + QUIET, safe='')}');document.body.append(f)"
    )


def posted_message(payload: bytes) -> str:
    return script(
        f"addEventListener('message',e=>{{var s=atob(e.data.p);{QUIET}}});postMessage({{p:'{b64(payload)}'}},'*')"
    )


def canvas_of_picture(payload: bytes) -> str:
    side = 24
    data = len(payload).to_bytes(2, "big") + payload
    data += bytes(side * side * 3 - len(data))
    picture = Image.frombytes("RGB", (side, side), data)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return script(
        f"var i=document.querySelector('img'),c=document.createElement('canvas'),x=c.getContext('2d');c.width=c.height={side};i.onload=()=>{{x.drawImage(i,0,0);var p=x.getImageData(0,0,{side},{side}).data,b=[];"
        f"for(var k=0;k<p.length;k++)if(k%4<3)b.push(p[k]);var n=b[0]*256+b[1],s=b.slice(2,2+n).map(v=>String.fromCharCode(v)).join('');{QUIET}}}",
        f'<img src="data:image/png;base64,{b64(out.getvalue())}">',
    )


def canvas_of_rectangles(payload: bytes) -> str:
    return script(
        f"var c=document.createElement('canvas'),x=c.getContext('2d');c.width={len(payload)};c.height=1;[{','.join(map(str, payload))}].forEach((n,i)=>{{x.fillStyle='rgb('+n+',0,0)';x.fillRect(i,0,1,1)}});"
        f"var p=x.getImageData(0,0,{len(payload)},1).data,s='';for(var j=0;j<p.length;j+=4)s+=String.fromCharCode(p[j]);{QUIET}"
    )


def remote_saver(payload: bytes) -> str:
    return page(
        f"<script src='https://cdn.example/FileSaver.min.js'></script><script>saveAs(new Blob([Uint8Array.from(atob('{b64(payload)}'),c=>c.charCodeAt(0))]),'x.bin')</script>"
    )


def jquery_click(payload: bytes) -> str:
    return page(
        f"<button class=go>Open</button><script src='https://code.jquery.example/jquery.min.js'></script><script>$(function(){{$('.go').on('click',function(){{var s=atob('{b64(payload)}');{QUIET}}})}})</script>"
    )


def sequence_of_promises(payload: bytes) -> str:
    return script(
        f"const wait=n=>new Promise(r=>setTimeout(r,n));(async()=>{{let s='';for(const p of {json.dumps([b64(payload)[:30], b64(payload)[30:]])}){{await wait(700);s+=p}}s=atob(s);{QUIET}}})()"
    )


TRICKS: tuple[Callable[[bytes], str], ...] = (
    plain_base64,
    in_template,
    in_nested_elements,
    in_attributes,
    in_comment,
    in_comment_child,
    in_custom_property,
    in_css_content,
    rot47,
    rot13,
    big_integer,
    hangul_fillers,
    zero_width,
    white_space,
    emoji,
    constructor_of_filter,
    broken_picture,
    data_module,
    static_module,
    exclusive_or,
    stream_cipher,
    backwards,
    shifted_numbers,
    string_timer,
    countdown,
    after_some_time,
    busy_waiting,
    mouse_moves,
    third_click,
    on_submit,
    in_worker,
    written_script,
    appended_script,
    inner_frame,
    data_frame,
    compressed,
    deflated,
    fetched_data,
    requested_data,
    old_browser,
    file_reader,
    file_picker,
    packer,
    custom_element,
    shadow_root,
    observer,
    proxies_and_getters,
    generators,
    thrown_strings,
    comment_of_function,
    own_source,
    json_block,
    hidden_fields,
    named_elements,
    table_cells,
    select_options,
    wide_decoder,
    data_view,
    kept_in_storage,
    hash_change,
    script_link,
    script_frame,
    posted_message,
    canvas_of_picture,
    canvas_of_rectangles,
    remote_saver,
    jquery_click,
    sequence_of_promises,
)
