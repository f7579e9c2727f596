"""Honest pages as people mail them: charts, reports, tickets, forms, saved articles, mail of builders, XML and pictures.

Each does with scripts what attacks do, for a reason: it decodes data, writes markup, saves files, copies text, goes to
addresses, sends what is typed.
"""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64
import io
import json
from importlib.util import find_spec
from pathlib import Path

import msgspec
from PIL import Image


class HonestPage(msgspec.Struct, frozen=True):
    """A page, and how it comes: as a file, or as the message's own text where it has no name."""

    content: str
    name: str = "page.html"
    type: str = "text/html"
    text: str = "Dear Ann,\n\nhere is the page that we talked about on Tuesday.\n\nKind regards\nDora\n"


def wrap(body: str) -> str:
    """A page with this body, which begins with its heading; what stands before `</head>` goes into the head."""
    head, _, rest = body.rpartition("</head>")
    title = rest[len("<h1>") : rest.index("</h1>")]
    return f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{title}</title>{head}</head>\n<body>{rest}</body></html>"


def make_picture() -> str:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((64, 64)).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def find_library() -> str:
    """A real library of more than half a megabyte, as reports embed them; it comes with the tests' own packages."""
    spec = find_spec("axe_playwright_python")
    assert spec
    assert spec.origin
    return (Path(spec.origin).parent / "axe.min.js").read_text("utf-8")


PICTURE = make_picture()
ROWS = [
    ["Week", "Visits", "Orders"],
    *[[str(40 + week), str(300 + 17 * week % 90), str(20 + week * 3 % 11)] for week in range(30)],
]
TABLE = (
    "<table id=t><thead><tr>"
    + "".join(f"<th>{cell}</th>" for cell in ROWS[0])
    + "</tr></thead><tbody>"
    + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in ROWS[1:])
    + "</tbody></table>"
)
DATA = f"const rows={json.dumps(ROWS)};"
VALUES = base64.b64encode(b"".join(number.to_bytes(4, "little") for number in range(2_000))).decode()
CSV = "document.getElementById('csv').onclick=()=>{const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([rows.map(r=>r.join(';')).join('\\r\\n')],{type:'text/csv'}));a.download='october.csv';a.click()};"
ANALYTICS = "var _gaq=_gaq||[];(function(){var ga=document.createElement('script');ga.async=true;ga.src=('https:'==document.location.protocol?'https://ssl':'http://www')+'.analytics.example/ga.js';var s=document.getElementsByTagName('script')[0];s.parentNode.insertBefore(ga,s)})();"
TAGS = "window.dataLayer=window.dataLayer||[];function gtag(){dataLayer.push(arguments)}gtag('js',new Date());gtag('config','G-4711');"

_CHARTS = {
    "bars on a canvas": f"<h1>October</h1><canvas id=c width=600 height=200></canvas><script>{DATA}const x=document.getElementById('c').getContext('2d');rows.slice(1).forEach((r,i)=>{{x.fillStyle='#369';x.fillRect(i*20,200-r[1]/2,16,r[1]/2);x.fillText(r[0],i*20,10)}})</script>",
    "lines in svg": f"""<h1>October</h1><div id=d></div><script>{DATA}document.getElementById('d').innerHTML='<svg viewBox="0 0 600 200"><polyline fill=none stroke=blue points="'+rows.slice(1).map((r,i)=>i*20+','+(200-r[1]/2)).join(' ')+'"/></svg>'</script>""",
    "chart library from elsewhere": f"<h1>October</h1><canvas id=c></canvas><script src='https://cdn.charts.example/chart.umd.min.js'></script><script>{DATA}new Chart(c,{{type:'line',data:{{labels:rows.map(r=>r[0]),datasets:[{{label:'Visits',data:rows.map(r=>+r[1])}}]}},options:{{plugins:{{legend:{{display:false}}}}}}}})</script>",
    "plot library from elsewhere": f"<h1>October</h1><div id=p></div><script src='https://cdn.plot.example/plotly-2.32.min.js'></script><script>{DATA}Plotly.newPlot('p',[{{x:rows.map(r=>r[0]),y:{{bdata:'{VALUES}',dtype:'i4'}}}}],{{title:'Visits'}},{{responsive:true}})</script>",
    "export as table": f"<h1>October</h1>{TABLE}<button id=csv>Save as CSV</button><script>{DATA}{CSV}</script>",
    "export as picture": "<h1>October</h1><canvas id=c></canvas><button id=b>Save picture</button><script>const x=c.getContext('2d');x.fillRect(1,1,20,20);b.onclick=()=>c.toBlob(p=>{const a=document.createElement('a');a.href=URL.createObjectURL(p);a.download='chart.png';a.click()})</script>",
    "export as drawing": "<h1>October</h1><svg id=s viewBox='0 0 9 9'><rect width=5 height=5 /></svg><button id=b>Save SVG</button><script>b.onclick=()=>{const a=document.createElement('a');a.href='data:image/svg+xml;charset=utf-8,'+encodeURIComponent(new XMLSerializer().serializeToString(s));a.download='chart.svg';a.click()}</script>",
    "selections by d3": f"<h1>October</h1><div id=viz></div><script src='https://d3js.example/d3.v7.min.js'></script><script>{DATA}const svg=d3.select('#viz').append('svg').attr('width',600);svg.selectAll('rect').data(rows).enter().append('rect').attr('x',(d,i)=>i*20).attr('height',d=>+d[1])</script>",
    "encoded arrays": f"<h1>Measurements</h1><p id=o></p><script>const raw=atob('{VALUES}'),a=new Int32Array(Uint8Array.from(raw,c=>c.charCodeAt(0)).buffer);o.textContent='Sum '+a.reduce((x,y)=>x+y,0)</script>",
    "live clock": "<h1>Machine 7</h1><p id=o></p><script>setInterval(()=>{o.textContent=new Date().toLocaleTimeString()},1000);requestAnimationFrame(function f(){o.style.opacity=Math.random();requestAnimationFrame(f)})</script>",
    "fetched figures": "<h1>Machine 7</h1><table id=t></table><script>fetch('https://plant.notice.example/api/7').then(r=>r.json()).then(d=>{for(const r of d.rows||[]){const e=t.insertRow();e.insertCell().textContent=r.name}}).catch(()=>{t.outerHTML='<p>No connection.</p>'})</script>",
    "maps": "<h1>Tour</h1><div id=m style='height:300px'></div><link rel=stylesheet href='https://maps.example/leaflet.css'><script src='https://maps.example/leaflet.js'></script><script>const m=L.map('m').setView([48.1,11.5],12);L.tileLayer('https://tiles.example/{z}/{x}/{y}.png').addTo(m);L.marker([48.1,11.5]).addTo(m).bindPopup('<b>Start</b>')</script>",
}
_REPORTS = {
    "sorted table": f"<h1>Stock</h1>{TABLE}<script>document.querySelectorAll('th').forEach((h,i)=>h.onclick=()=>{{const b=document.querySelector('tbody');[...b.rows].sort((x,y)=>x.cells[i].textContent.localeCompare(y.cells[i].textContent)).forEach(r=>b.appendChild(r))}})</script>",
    "filtered table": f"<h1>Stock</h1><input id=q placeholder=Search>{TABLE}<script>q.addEventListener('input',()=>document.querySelectorAll('tbody tr').forEach(r=>r.hidden=!r.textContent.includes(q.value)))</script>",
    "tabs": "<h1>Handbook</h1><nav><a href=#a>One</a><a href=#b>Two</a></nav><section id=a>One</section><section id=b>Two</section><script>function show(){const id=location.hash.slice(1)||'a';document.querySelectorAll('section').forEach(s=>s.style.display=s.id===id?'block':'none')}onhashchange=show;show()</script>",
    "test results": f"<h1>Tests</h1><div id=r></div><script id=data type='application/json'>{json.dumps([{'name': f'test_{n}', 'ok': n % 7 > 0, 'log': 'assert 1 == 2'} for n in range(200)])}</script><script>JSON.parse(document.getElementById('data').textContent).forEach(t=>{{const d=document.createElement('details');d.innerHTML='<summary>'+t.name+(t.ok?' passed':' failed')+'</summary><pre>'+t.log+'</pre>';r.appendChild(d)}})</script>",
    "coverage": "<h1>Coverage</h1><table class=index data-sortable><tr class=total><td data-ratio='90 100'>90%</td></tr></table><input id=filter><script>const coverage={};coverage.storage=localStorage.getItem('sort')||'[]';JSON.parse(coverage.storage);document.addEventListener('DOMContentLoaded',()=>{document.querySelectorAll('[data-sortable] td').forEach(td=>{const [a,b]=td.dataset.ratio.split(' ');td.title=a/b})});document.addEventListener('keydown',e=>{if(e.key==='s')document.querySelector('td').click()})</script>",
    "notebook": f"<h1>Notebook</h1><img src='{PICTURE}'><pre>In [1]: df.plot()</pre><script src='https://cdn.example/require.min.js'></script><script src='https://cdn.example/MathJax.js?config=TeX'></script><script type='text/x-mathjax-config'>MathJax.Hub.Config({{}})</script><script>(function(){{if(typeof require!=='undefined'&&require.config)require.config({{paths:{{jquery:'https://cdn.example/jquery'}}}});document.querySelectorAll('pre').forEach(p=>{{const b=document.createElement('button');b.textContent='Copy';b.onclick=()=>navigator.clipboard.writeText(p.innerText);p.before(b)}})}})()</script>",
    "embedded library": f"<h1>Accessibility</h1><div id=r></div><script>{find_library()}</script><script>axe.run(document.body).then(x=>{{r.textContent=x.violations.length+' findings'}}).catch(e=>{{r.textContent=e.message}})</script>",
    "two embedded libraries": f"<h1>Accessibility</h1><p>Figures of October by region, made with a library for charts.</p><div id=g></div><script>{find_library()}</script><script>{find_library().replace('axe', 'plot')}</script><script>plot.draw('g',[{{y:[1,2,3]}}])</script>",
    "library with tables of its own": "<h1>Orders</h1><div id=g></div><script>"
    "function f(a){return new Blob([a])}URL.createObjectURL;var x=document.createElement('a');x.download='a.csv';"
    + "".join(
        f"var t{n}='{base64.b64encode(bytes((n * 7 + i * 31) % 256 for i in range(200))).decode()}';t{n}=atob(t{n});"
        for n in range(300)
    )
    + "plot.draw('g',t1)</script>",
    "embedded library and export": f"<h1>Accessibility</h1>{TABLE}<button id=csv>Save</button><script>{find_library()}</script><script>{DATA}{CSV}</script>",
    "data tables": f"<h1>Customers</h1>{TABLE}<script src='https://code.jquery.example/jquery-3.7.1.min.js'></script><script src='https://cdn.tables.example/datatables.min.js'></script><script>$(document).ready(function(){{$('#t').DataTable({{paging:false,dom:'Bfrtip',buttons:['copy','csv','excel']}});$('#t tbody').on('click','tr',function(){{$(this).toggleClass('selected')}})}})</script>",
    "print button": f"""<h1>Order 4711</h1>{TABLE}<button onclick='window.print()'>Print</button><button onclick="var w=window.open('');w.document.write('<html><body>'+document.getElementById('t').outerHTML+'</body></html>');w.print()">Print the table</button>""",
    "large json": f"<h1>Log</h1><ul id=l></ul><script>const log={json.dumps([{'at': 1700000000 + n, 'text': f'line {n} of the log'} for n in range(3000)])};log.slice(0,200).forEach(e=>{{const i=document.createElement('li');i.textContent=new Date(e.at*1000).toISOString()+' '+e.text;l.append(i)}})</script>",
    "folding sections": "<h1>Minutes</h1><h2 class=f>One</h2><div>Text</div><h2 class=f>Two</h2><div>Text</div><script>for(const h of document.getElementsByClassName('f'))h.addEventListener('click',()=>h.nextElementSibling.classList.toggle('closed'))</script>",
    "slides": "<h1>Talk</h1><section>1</section><section>2</section><script>let n=0;const all=[...document.querySelectorAll('section')];const show=()=>all.forEach((s,i)=>s.hidden=i!=n);addEventListener('keydown',e=>{if(e.key=='ArrowRight')n++;if(e.key=='ArrowLeft')n--;show()});show();document.body.ondblclick=()=>document.documentElement.requestFullscreen()</script>",
    "mermaid": "<h1>Process</h1><pre class=mermaid>graph TD;A-->B</pre><script type=module>import mermaid from 'https://cdn.jsdelivr.net/npm/mermaid.esm.min.mjs';mermaid.initialize({startOnLoad:true})</script>",
    "framework": "<h1>Board</h1><div id=app></div><script src='https://unpkg.example/vue@3'></script><script>const {createApp,ref}=Vue;createApp({setup(){const n=ref(0);return{n}},template:'<button @click=\"n++\">{{n}}</button>'}).mount('#app')</script>",
}
_TICKETS = {
    "drawn code": "<h1>Ticket</h1><div id=b></div><script>const c='4711081512';b.innerHTML=[...c].map(d=>'<i style=\"display:inline-block;height:40px;background:#000;width:'+(1+d%4)+'px\"></i>').join(' ')</script>",
    "calendar entry": "<h1>Ticket</h1><button id=k>Add to calendar</button><script>k.onclick=()=>{const t=['BEGIN:VCALENDAR','VERSION:2.0','BEGIN:VEVENT','DTSTART:20261201T190000Z','SUMMARY:Concert','END:VEVENT','END:VCALENDAR'].join('\\r\\n');const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([t],{type:'text/calendar'}));a.download='concert.ics';a.click()}</script>",
    "countdown": "<h1>Boarding pass</h1><p>Gate closes in <b id=m></b></p><script>const end=new Date('2026-12-01T19:00:00Z');setInterval(()=>{m.textContent=Math.max(0,Math.floor((end-Date.now())/60000))+' minutes'},1000)</script>",
    "picture of a code": f"<h1>Ticket</h1><img src='{PICTURE}' alt='Ticket 4711'><a href='https://tickets.notice.example/4711'>Show online</a>",
    "contact card": "<h1>Your host</h1><button id=k>Save contact</button><script>k.onclick=()=>{const a=document.createElement('a');a.href='data:text/vcard;charset=utf-8,'+encodeURIComponent('BEGIN:VCARD\\nFN:Dora Director\\nTEL:+49 89 1234\\nEND:VCARD');a.download='dora.vcf';a.click()}</script>",
    "wallet link": "<h1>Ticket</h1><a id=w href='https://tickets.notice.example/wallet/4711'>Add to wallet</a><script>if(/iPhone|Android/.test(navigator.userAgent))w.click()</script>",
}
_FORMS = {
    "tax calculation": "<h1>Tax</h1><label>Income<input id=i type=number></label><output id=o></output><script>i.oninput=()=>{const v=+i.value||0;o.textContent=(v*0.19).toFixed(2)+' EUR'}</script>",
    "draft in the browser": "<h1>Declaration</h1><form id=f><input name=income><input name=costs><button type=button id=s>Save draft</button></form><script>s.onclick=()=>localStorage.setItem('draft',JSON.stringify(Object.fromEntries(new FormData(f))));const d=JSON.parse(localStorage.getItem('draft')||'{}');for(const k in d)f.elements[k].value=d[k]</script>",
    "draft as a file": "<h1>Declaration</h1><form id=f><input name=income><input name=costs></form><button id=s>Save</button><script>s.onclick=()=>{const a=document.createElement('a');a.href=URL.createObjectURL(new Blob([JSON.stringify(Object.fromEntries(new FormData(f)))],{type:'application/json'}));a.download='declaration.json';a.click()}</script>",
    "form of the sender": "<h1>Registration</h1><form action='https://forms.notice.example/register' method=post><input name=name><input name=mail type=email><button>Register</button></form><script>document.forms[0].onsubmit=e=>{if(!document.forms[0].name.value){alert('Please write your name.');e.preventDefault()}}</script>",
    "survey": "<h1>Survey</h1><form id=f><textarea name=line></textarea><button>Send</button></form><script>f.addEventListener('submit',e=>{e.preventDefault();fetch('https://survey.notice.example/answers',{method:'POST',body:new URLSearchParams(new FormData(f))}).then(()=>{f.innerHTML='<p>Thank you.</p>'})})</script>",
    "answer by mail": "<h1>Order form</h1><input id=n type=number><button id=b>Order</button><script>b.onclick=()=>{location.href='mailto:orders@notice.example?subject=Order&body='+encodeURIComponent('Pieces: '+n.value)}</script>",
    "validated number": "<h1>Account</h1><input id=i placeholder='Account number'><span id=o></span><script>const check=t=>[...t.replace(/\\s/g,'')].reduce((s,c,i)=>s+(i%2?+c:(2*c>9?2*c-9:2*c)),0)%10===0;i.addEventListener('keyup',()=>{o.textContent=check(i.value)?'right':'wrong'})</script>",
    "signature": "<h1>Contract</h1><canvas id=c width=300 height=100></canvas><button id=s>Save signature</button><script>const x=c.getContext('2d');let on=false;c.onmousedown=()=>{on=true;x.beginPath()};c.onmousemove=e=>{if(on){x.lineTo(e.offsetX,e.offsetY);x.stroke()}};c.onmouseup=()=>on=false;s.onclick=()=>{const a=document.createElement('a');a.href=c.toDataURL('image/png');a.download='signature.png';a.click()}</script>",
}
_ARTICLES = {
    "counters": f"<h1>News</h1><article>Text of the article.</article><script>{ANALYTICS}</script><script async src='https://tags.example/gtag/js?id=G-4711'></script><script>{TAGS}</script>",
    "lazy pictures": "<h1>News</h1><img data-src='https://img.example/1.jpg' class=lazy><script>const o=new IntersectionObserver(all=>all.forEach(e=>{if(e.isIntersecting){e.target.src=e.target.dataset.src;o.unobserve(e.target)}}));document.querySelectorAll('img.lazy').forEach(i=>o.observe(i))</script>",
    "share links": "<h1>News</h1><button id=s>Share</button><script>s.onclick=()=>{if(navigator.share)navigator.share({title:document.title,url:'https://news.example/1'});else window.open('https://social.example/share?u='+encodeURIComponent('https://news.example/1'))}</script>",
    "cookie banner": "<h1>News</h1><div id=k>We use cookies <button id=y>OK</button></div><script>if(document.cookie.indexOf('consent=1')>=0)k.remove();y.onclick=()=>{document.cookie='consent=1;max-age=31536000';k.remove()}</script>",
    "copy buttons": "<h1>How to install</h1><pre>pip install build\ncurl -fsSL https://get.tools.example/install.sh | sh</pre><button id=b>Copy</button><script>b.onclick=()=>{navigator.clipboard.writeText(document.querySelector('pre').textContent);b.textContent='Copied'}</script>",
    "dark mode": "<h1>News</h1><button id=d>Dark</button><script>const on=localStorage.theme==='dark'||matchMedia('(prefers-color-scheme: dark)').matches;document.documentElement.classList.toggle('dark',on);d.onclick=()=>{localStorage.theme=document.documentElement.classList.toggle('dark')?'dark':'light'}</script>",
    "written counter": "<h1>News</h1><p>Text</p><script>document.write('<scr'+'ipt src=\"https://ads.example/ads.js?r='+Math.random()+'\"></scr'+'ipt>')</script><script type='application/ld+json'>{\"@type\":\"NewsArticle\"}</script>",
    "comments from elsewhere": "<h1>News</h1><div id=disqus_thread></div><script>(function(){var d=document,s=d.createElement('script');s.src='https://notice.disqus.example/embed.js';s.setAttribute('data-timestamp',+new Date());(d.head||d.body).appendChild(s)})();</script><form action='https://news.example/search'><input name=q></form>",
    "protected pictures": "<h1>Photographs</h1><img src='https://img.example/a.jpg'><script>document.addEventListener('contextmenu',e=>{if(e.target.tagName==='IMG')e.preventDefault()})</script>",
    "hidden address": "<h1>Contact</h1><a id=m>Write to us</a><script>const p=['office','notice','example'];m.href='mailto:'+p[0]+'@'+p[1]+'.'+p[2];m.textContent=p[0]+'@'+p[1]+'.'+p[2]</script>",
    "highlighted code": "<h1>How to</h1><pre><code class=language-js>let a = 1;</code></pre><script src='https://cdn.example/highlight.min.js'></script><script>hljs.highlightAll();document.querySelectorAll('code').forEach(c=>{c.innerHTML=c.innerHTML.replace(/let/g,'<b>let</b>')})</script>",
    "single page": f"<style>@font-face{{src:url(data:font/woff2;base64,{base64.b64encode(b'wOF2' + bytes(200)).decode()})}}</style></head><h1>Saved page</h1><img src='{PICTURE}'><script>!function(e,t){{'object'==typeof module?module.exports=t():e.Lib=t()}}(this,function(){{return{{run:function(){{return 1}}}}}});Lib.run();window.addEventListener('load',function(){{if('serviceWorker'in navigator)navigator.serviceWorker.register('/sw.js')}})</script>",
}
_BUILDERS = {
    "markup for actions": '<h1>Your order</h1><script type=\'application/ld+json\'>{"@context":"http://schema.org","@type":"Order","orderNumber":"4711"}</script><p>Your order 4711 has left our house.</p>',
    "left over script": "<h1>Newsletter</h1><p>News of the month, and the recipe that many asked for.</p><script type='text/javascript'>function MM_preloadImages(){var d=document;if(d.images){if(!d.MM_p)d.MM_p=new Array();}}</script>",
    "conditional script": "<h1>Newsletter</h1><!--[if mso]><xml><o:OfficeDocumentSettings/></xml><![endif]--><p onmouseover=\"this.style.color='red'\">News of the month.</p>",
}
_XML = {
    "invoice": (
        "invoice.xml",
        "application/xml",
        "<?xml version='1.0'?><Invoice xmlns='urn:oasis:names:specification:ubl:schema:xsd:Invoice-2' xmlns:cbc='urn:cbc'><cbc:ID>4711</cbc:ID><cbc:Note>Script for the stage play</cbc:Note></Invoice>",
    ),
    "invoice with a style sheet": (
        "invoice.xml",
        "text/xml",
        "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='invoice.xsl'?><Invoice xmlns='urn:ubl'><ID>4711</ID></Invoice>",
    ),
    "clinical document": (
        "report.xml",
        "text/xml",
        "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='CDA.xsl'?><ClinicalDocument xmlns='urn:hl7-org:v3'><title>Letter</title></ClinicalDocument>",
    ),
    "news feed": (
        "feed.xml",
        "application/rss+xml",
        "<?xml version='1.0'?><rss version='2.0'><channel><title>News</title><item><description>&lt;p&gt;Text&lt;/p&gt;</description></item></channel></rss>",
    ),
    "drawing": (
        "logo.svg",
        "image/svg+xml",
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><style>.a{fill:#369}</style><circle class='a' r='4'/></svg>",
    ),
    "drawing with entities": (
        "logo.svg",
        "image/svg+xml",
        "<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY ns_svg 'http://www.w3.org/2000/svg'><!ENTITY ns_xlink 'http://www.w3.org/1999/xlink'>]><svg xmlns='&ns_svg;' xmlns:xlink='&ns_xlink;' viewBox='0 0 9 9'><path d='M0 0h9v9z'/></svg>",
    ),
    "places": (
        "tour.kml",
        "application/vnd.google-earth.kml+xml",
        "<?xml version='1.0'?><kml xmlns='http://www.opengis.net/kml/2.2'><Placemark><name>Start</name><description><![CDATA[<b>Here</b>]]></description></Placemark></kml>",
    ),
    "strict page": (
        "invoice.xhtml",
        "application/xhtml+xml",
        "<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd'><html xmlns='http://www.w3.org/1999/xhtml'><head><title>Invoice</title></head><body><p>Total&nbsp;12</p></body></html>",
    ),
}

HONEST: dict[str, HonestPage] = {
    **{
        f"{group}: {name}": HonestPage(wrap(html))
        for group, pages in (
            ("chart", _CHARTS),
            ("report", _REPORTS),
            ("ticket", _TICKETS),
            ("form", _FORMS),
            ("article", _ARTICLES),
        )
        for name, html in pages.items()
    },
    **{f"builder: {name}": HonestPage(wrap(html), "") for name, html in _BUILDERS.items()},
    **{f"xml: {name}": HonestPage(content, file, kind) for name, (file, kind, content) in _XML.items()},
}
