"""The runner and the stand-in browser: what scripts do is noted, whatever they do to what notes it, and within limits."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

from urllib.parse import unquote

import pytest

from gatepost.pages.interpreter import measure_code
from gatepost.pages.page_nodes import read_html_nodes
from gatepost.pages.runner import (
    PageEffects,
    ScriptTime,
    find_input,
    find_seconds,
    read_bytes,
    run_page,
    sort_effects,
)

GO = "location='https://evil.example/'"


def run(html: str, seconds: float = 1.5, now: float = 1_800_000_000.0) -> PageEffects:
    return sort_effects(run_page(read_html_nodes(html), ScriptTime(now, seconds)))


def targets(html: str) -> list[str]:
    return [navigation.target for navigation in run(html).navigations]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p id=a data-one-two=3>x</p><script>go(a.dataset.oneTwo)</script>", "3"),
        (
            "<div><b class='x y'>1</b><b>2</b></div><script>go(document.querySelector('div > b.y + b').textContent)</script>",
            "2",
        ),
        ("<i></i><i a=1></i><script>go(document.querySelectorAll('i:not([a])').length)</script>", "1"),
        (
            "<ul><li>a<li>b</ul><script>go([...document.querySelector('ul').children].map(e=>e.textContent).join('-'))</script>",
            "a-b",
        ),
        ("<form name=f><input name=q value=7></form><script>go(document.f.q.value+f.elements.q.name)</script>", "7q"),
        (
            "<template id=t><b>5</b></template><script>go(t.content.firstElementChild.cloneNode(true).outerHTML)</script>",
            "<b>5</b>",
        ),
        (
            "<div id=d></div><script>d.innerHTML='<p title=\"a&amp;b\">x<br>y</p>';go(d.firstChild.title+d.innerHTML)</script>",
            'a&b<p title="a&amp;b">x<br>y</p>',
        ),
        (
            "<script>var e=document.createElement('div');e.className='k';e.style.backgroundColor='red';go(e.outerHTML+e.style.cssText)</script>",
            '<div class="k"></div>background-color: red;',
        ),
        ("<script>go(new URL('../b?c=1#d','https://a.example/x/y').searchParams.get('c'))</script>", "1"),
        ("<script>go(new TextDecoder().decode(new TextEncoder().encode('\u00e4\u20ac')))</script>", "\u00e4\u20ac"),
        ("<script>new Blob(['a',new Uint8Array([98])]).text().then(go)</script>", "ab"),
        (
            "<script>go(typeof foo+typeof document.foo+(navigator.webdriver)+('ontouchstart' in window))</script>",
            "undefinedundefinedfalsefalse",
        ),
        # Codes of six signs take their letters from these.
        (
            "<script>go([]['flat']+[]+''['fontcolor']()+self)</script>",
            'function flat() { [native code] }<font color="undefined"></font>[object Window]',
        ),
        (
            "<script>go(''+document.createElement('a')+navigator+[]['entries']())</script>",
            "[object HTMLAnchorElement][object Navigator][object Array Iterator]",
        ),
        ("<script>go(new Date().getTime()>1799999999999&&Date.now()-performance.now()>0)</script>", "true"),
        (
            "<script>class A extends HTMLElement{connectedCallback(){go(this.id)}};customElements.define('x-a',A)</script><x-a id=q></x-a>",
            "q",
        ),
        ("<script>go(document.body.contains(document.querySelector('b')))</script><b></b>", "true"),
        ("<script>localStorage.a=1;go(localStorage.getItem('a')+sessionStorage.getItem('b'))</script>", "1null"),
        (
            "<script>go(getComputedStyle(document.body).getPropertyValue('--x').trim())</script><style>body{--x: 5}</style>",
            "5",
        ),
    ],
)
def test_the_stand_in_does_as_a_browser(html: str, expected: str) -> None:
    found = targets("<script>function go(v){location='https://x.example/?'+encodeURIComponent(v)}</script>" + html)
    assert [unquote(target.partition("?")[2]) for target in found] == [expected]


SELECTED = {
    "i:nth-child(2n+1)": "13",
    "i:nth-child(even)": "24",
    "i:nth-child(-n+2)": "12",
    "i:nth-last-child(2)": "3",
    "i:nth-of-type(3)": "3",
    "i:last-of-type, #t b": "4b",
    "i:not(.a, [x])": "3",
    "i:is([x='2'], :last-child), i.a": "124",
    "div:has(> b) b": "b",
    "i[lang|=de]": "2",
    "i[lang=DE-at i]": "2",
    "#t i ~ i.z": "4",
    "i + i + i": "34",
    ":root > body div *|b": "b",
    "i::before": "1234",
    "i:nth-child(": "",
    "i >": "",
}


@pytest.mark.parametrize("selector", SELECTED)
def test_selectors(selector: str) -> None:
    html = "<p><i class=a>1</i><i x=2 lang=de-at>2</i><i>3</i><i class='y\tz' x>4</i></p><div><b>b</b></div>"
    quoted = selector.replace("'", "\\'")
    script = f"alert([...document.querySelectorAll('{quoted}')].map(e=>e.textContent).join(''))"
    found = run(f"<body id=t>{html}<script>{script}</script>")
    assert found.said == [SELECTED[selector]]


def test_a_table_is_sorted_within_the_time_of_a_page() -> None:
    rows = "".join(f"<tr><td>{number * 7919 % 211}</td><td>{number}</td></tr>" for number in range(60))
    sort = (
        "[...b.rows].sort((x,y)=>x.cells[i].textContent.localeCompare(y.cells[i].textContent)).forEach(r=>b.append(r))"
    )
    page = f"<table><tr><th>a</th><th>b</th></tr><tbody id=b>{rows}</tbody></table><script>document.querySelectorAll('th').forEach((h,i)=>h.onclick=()=>{{{sort}}})</script>"
    assert not run(page).ended


def test_pixels_that_a_page_draws_are_those_that_it_reads() -> None:
    draw = "x.fillStyle='#102030';x.fillRect(-1,1.5,3,9);x.clearRect(1,2,1,1);"
    read = "alert([...x.getImageData(0,0,3,4).data].join(' '))"
    found = run(f"<canvas id=c width=3 height=4></canvas><script>var x=c.getContext('2d');{draw}{read}</script>")
    set_, clear = "16 32 48 255", "0 0 0 0"
    assert found.said == [" ".join([clear] * 3 + [set_, set_, clear] + [set_, clear, clear] + [set_, set_, clear])]


def test_eval_sees_what_is_around_it_and_can_be_replaced() -> None:
    assert targets("<script>(function(){var x=5;location='https://a.example/'+eval('x')})()</script>") == [
        "https://a.example/5"
    ]
    assert targets("<script>eval=7;location='https://a.example/'+eval</script>") == ["https://a.example/7"]


@pytest.mark.parametrize(
    "before",
    [
        "JSON.stringify=()=>'{}'",
        "Array.prototype.push=Array.prototype.join=Array.prototype.slice=()=>0",
        "Object.prototype.toJSON=Array.prototype.toJSON=String.prototype.toJSON=()=>0",
        "Object.defineProperty(Array.prototype,'0',{set(){},get(){}})",
        "Object.defineProperty(Object.prototype,'length',{set(){},get(){return 0}})",
        "String=Map=Promise=Proxy=Reflect=Symbol=undefined",
        "String.prototype.slice=String.prototype.indexOf=()=>{throw 1}",
        "Object.keys=Object.defineProperty=Object.create=()=>{throw 1}",
        "Function.prototype.call=Function.prototype.apply=()=>{throw 1}",
        "document=window=self=null",
        "eval=Function=undefined",
        "Map.prototype.has=Map.prototype.set=Set.prototype.has=()=>{throw 1}",
    ],
)
def test_a_page_cannot_keep_its_effects_from_being_noted(before: str) -> None:
    assert "https://evil.example/" in targets(f"<script>try{{{before}}}catch(e){{}}</script><script>{GO}</script>")


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("for(;;);", "time"),
        ("while(1)try{for(;;);}catch(e){}", "time"),
        ("function f(){setTimeout(f)}f();for(let i=0;i<1e9;i++);", "time"),
        ("/(a+)+$/.test('a'.repeat(60)+'b')", "time"),
        ("var a=[];for(;;)a.push(new Uint8Array(1e7))", "memory"),
        ("for(;;)'x'.repeat(3e6)", "time"),
        ("var a=Array(1e5).fill(1);for(;;)a.slice().sort()", "time"),
        ("var p=Promise.resolve();(function f(){p.then(f)})()", "time"),
        ("setInterval(()=>{},1)", ""),
        ("(function f(){f()})()", ""),
        ("addEventListener('x',function f(){dispatchEvent(new Event('x'))})", ""),
        ("for(let i=0;i<2000;i++)document.body.appendChild(document.createElement('p'))", ""),
        ("Array(4294967295).join('')", "time"),
        ("document.body.innerHTML='<p>'.repeat(1000)", ""),
        (
            "var d=document.body;for(var i=0;i<2000;i++){var e=document.createElement('b');d.append(e);d=e}go=document.body.innerHTML",
            "",
        ),
    ],
)
def test_limits(code: str, ended: str) -> None:
    page = run(f"<body><script>{code}</script><script>{GO}</script>")
    assert page.ended == ended
    assert bool(page.navigations) == (not ended)


@pytest.mark.parametrize("filler", ["<p>a</p>", "<p class=a>a</p>", "<td>1", "<!-- a -->", "<br>"])
@pytest.mark.parametrize("count", [4_000, 20_000, 90_000])
def test_what_stands_at_the_end_of_a_long_page_runs(filler: str, count: int) -> None:
    html = (
        filler * count
        + "<template id=t>https://evil.example/</template><script>location=t.content.textContent</script>"
    )
    found = run(html)
    if count <= 20_000:
        assert [navigation.target for navigation in found.navigations] == ["https://evil.example/"]
    else:
        assert found.navigations or found.faults  # it ran


def test_effects_are_limited() -> None:
    page = run(
        "<script>for(var i=0;i<3000;i++)new Blob(['content number '+i]);for(i=0;i<9;i++)new Blob(['x'.repeat(5e6)+i])</script>"
    )
    assert page.is_cut
    assert len(page.files) <= 300
    assert sum(len(made.content) for made in page.files) < 13_000_000


@pytest.mark.parametrize(
    "html",
    [
        f"<script><!--<script>\n/*</script>*/\n{GO}\n-->\n</script>",
        f"<script><!--<script></script>\n{GO}\n</script>--></script>",
        f"<script>//<!-->\n{GO}</script>",
        f"<script><!--\n</script><p>x</p><script>{GO}</script>",
        f"<script </script>{GO}</script>",
        f"<script><!--<script></script>--></script><script>{GO}</script>",
    ],
)
def test_a_script_ends_where_a_browser_ends_it(html: str) -> None:
    assert targets(html) == ["https://evil.example/"]


@pytest.mark.parametrize(
    ("code", "stalls"),
    [
        ("for(;;);", True),
        ("onload=()=>{for(;;);}", True),
        ("var a=[];for(;;)a.push(new Uint8Array(1e7))", True),
        ("f=x=>x;" + "f(1);" * 20_000 + "for(;;);", True),
        ("for(let i=0;i<900;i++)setTimeout(()=>{for(let j=0;j<3e4;j++);})", False),
        ("throw 1", False),
    ],
)
def test_a_script_without_end_stalls(code: str, stalls: bool) -> None:
    assert run(f"<script>{code}</script>").stalls == stalls


def test_what_stands_behind_a_slow_click_stalls_the_page() -> None:
    burn = "for(var i=0,x=1;i<4e8;i++)x=(x*31+i)%1000003;"
    found = run(
        f"<button id=b>Open</button><script>b.onclick=function(){{{burn}location='https://a.example/'}}</script>"
    )
    assert found.stalls


def test_time_is_shared_by_the_pages_of_a_message() -> None:
    budget = ScriptTime(seconds=0.2)
    page = read_html_nodes("<script>for(;;);</script>")
    assert run_page(page, budget).ended == "time"
    assert budget.left <= 0
    assert run_page(page, budget).ended == "time"
    assert budget.pages == 1


def test_an_analysis_repeats() -> None:
    html = "<script>document.title=Math.random();location='https://a.example/?'+[Math.random(),Date.now(),new Date(),crypto.randomUUID(),performance.now()]</script>"
    assert targets(html) == targets(html)
    assert targets(html) != [navigation.target for navigation in run(html, now=1_900_000_000.0).navigations]


@pytest.mark.parametrize(
    "before", ["", "Object.assign=()=>({});", "Object.defineProperty(Event.prototype,'key',{set(){throw 1}});"]
)
def test_events_have_their_members_whatever_a_page_does(before: str) -> None:
    code = "go([event.type,event.isTrusted,event.key,event.clientX,event instanceof Event,this.id].join('-'))"
    html = f"<script>{before}function go(t){{location='https://a.example/'+t}}</script><b id=q onclick=\"{code}\">x</b>"
    assert set(targets(html)) == {"https://a.example/click-true-a-321-true-q"}


def test_what_is_missing_is_said() -> None:
    page = run(
        "<script>Plotly.newPlot('a',[1]);location='https://a.example/'</script><script>navigator.disk.read()</script>"
    )
    assert page.missing == ["Plotly"]
    assert [navigation.target for navigation in page.navigations] == ["https://a.example/"]
    assert page.faults == ["TypeError: cannot read property 'read' of undefined"]


@pytest.mark.parametrize(
    "code",
    [
        "(async()=>{Swal.fire('a');await 1;axios.get('/a');location='https://a.example/'})()",
        "onload=async()=>{await 1;Swal.fire('a');location='https://a.example/'}",
        "setTimeout(async()=>{await 1;Swal.fire('a');location='https://a.example/'})",
        "b.onclick=async()=>{await 1;Swal.fire('a');location='https://a.example/'}",
    ],
)
def test_asynchronous_code_goes_on_without_what_is_missing(code: str) -> None:
    assert "https://a.example/" in targets(f"<button id=b>a</button><script>{code}</script>")


def test_scripts_that_are_too_long_are_left_out_and_it_is_said() -> None:
    library = "function f(a,b){return a+b*2-1}" * 40_000
    page = run(f"<script>{library}</script><script>{GO}</script>")
    assert page.ended == "size"
    assert page.navigations
    assert measure_code(library) == len(library)
    assert measure_code("var a='" + "x" * 5_000 + "';") < 100


@pytest.mark.parametrize(
    "text",
    [
        "p=Typed-Secret-73",
        "VHlwZWQtU2VjcmV0LTcz",
        "eyJwIjoiVHlwZWQtU2VjcmV0LTczIn0=",
        "37-terceS-depyT",
        "Typed%2DSecret%2D73",
        "54797065642d5365637265742d3733",
    ],
)
def test_input_is_found_in_what_is_sent(text: str) -> None:
    assert find_input(f"https://a.example/?x={text}") == "password"


def test_input_is_not_found_where_there_is_none() -> None:
    assert find_input("https://a.example/?x=VGVzdA==&typed=secret") == ""
    assert find_input("a=reader%40typed.example") == "text"


SLOW = {
    "written as JSON": "var a=new Array(1e6).fill('abcdefgh');for(;;)JSON.stringify(a);",
    "keys of an object": "var o={};for(var i=0;i<2e5;i++)o['k'+i]=i;for(;;)Object.keys(o);",
    "pieces of a text": "var s='ab'.repeat(5e6);for(;;)s.slice(1);",
    "letters of a text": "var s='\u00e9'.repeat(2e6);for(;;)encodeURIComponent(s);",
    "bytes of a text": "var s='x'.repeat(5e6);for(;;)btoa(s);",
    "compiled again and again": "var s='var a=1;'.repeat(9e3);for(;;)try{eval(s)}catch(e){}",
    "compiled by the window": "var s='1;'.repeat(3e4);for(;;)(0,window.eval)(s)",
    "compiled as functions": "var s='1;'.repeat(3e4);for(;;)Function(s)",
    "files of zeros": "for(;;)new Blob([new Uint8Array(3e6)]);",
}


# Ways to keep an interpreter from looking at its clock: while an error becomes text, in a built-in function, in a search.
HANGING = {
    **{f"the {how} of what is thrown": code for how, code in {
        "text": "throw {toString(){for(;;);}}",
        "primitive": "throw {[Symbol.toPrimitive](){for(;;);}}",
        "message": "throw Object.defineProperty(new Error,'message',{get(){for(;;);}})",
        "stack": "throw Object.defineProperty(new Error,'stack',{get(){for(;;);}})",
        "traps": "throw new Proxy({},{get(){for(;;);},has(){for(;;);}})",
    }.items()},
    "in a promise": "Promise.reject({get name(){for(;;);}})",
    "in a job": "(async()=>{for(;;)await 0})()",
    "a thenable": "Promise.resolve({then(f){for(;;);}})",
    "a finalizer": "try{throw 1}finally{for(;;);}",
    "flatMap": "[].flatMap.call({length:2**53-1},x=>0)",
    "raw text": "String.raw({raw:{length:2**53-1}})",
    "text of a list": "Array.prototype.toLocaleString.call({length:2**53-1})",
    "a search in nothing": "Array.prototype.includes.call({length:2**53-1},1)",
    "copies": "Array.prototype.copyWithin.call({length:2**53-1},0,1)",
    "a search that goes back": "'a'.repeat(9e6).indexOf('a'.repeat(9e5)+'b')",
    "an expression": "/^(a|a|b?)*$/.test('a'.repeat(99)+'c')",
    "a generator": "function*f(){for(;;)yield 1};[...f()]",
    "its destructuring": "function*f(){for(;;)yield};var [...a]=f()",
    "dates": "for(;;)new Date(NaN).toLocaleString()",
    "JSON of a proxy": "JSON.stringify(new Proxy([],{get(t,k){return k=='length'?2**53-1:k=='toJSON'?undefined:1}}))",
    "keys of a proxy": "Object.keys(new Proxy({},{ownKeys(){for(;;);}}))",
    "an iterator's end": "for(var a of {[Symbol.iterator](){return{next(){return{}},return(){for(;;);}}}})break",
    "sorting": "var a=Array(2e5).fill(0);a.sort(()=>{for(;;);})",
    "a handler of errors": "onerror=()=>{for(;;);};throw 1",
    "a text that is written": "document.write({toString(){for(;;);}})",
    "a timer": "setTimeout({toString(){for(;;);}})",
    "its length": "new Blob({get length(){for(;;);},[Symbol.iterator]:function*(){for(;;)yield 'a'.repeat(9)}})",
}  # fmt: skip


@pytest.mark.parametrize("name", [*SLOW, *HANGING])
def test_whatever_a_script_does_costs_its_time_and_no_more(name: str) -> None:
    page = read_html_nodes(f"<script>{GO}</script><script>{(SLOW | HANGING)[name]}</script>")
    told: list[tuple[bool, bool]] = []
    # A busy processor takes more of its time for the same, now and then.
    while (True, True) not in told and len(told) < 3:
        budget = ScriptTime(seconds=9.0)
        found = sort_effects(run_page(page, budget))
        assert found.ended in ("time", "memory"), found
        # What was done before is known.
        assert [navigation.target for navigation in found.navigations] == ["https://evil.example/"]
        told.append((found.stalls, 9.0 - budget.left < 0.4))
    assert (True, True) in told


def test_what_comes_after_many_jobs_is_seen() -> None:
    found = targets(f"<script>(async()=>{{for(let i=0;i<1e4;i++)await 0;{GO}}})()</script>")
    assert found == ["https://evil.example/"]


def test_a_long_script_that_has_no_end_is_what_stopped_its_page() -> None:
    padding = "function f%d(a){return a+%d};"
    code = "".join(padding % (number, number) for number in range(4_000))
    assert len(code) > 100_000
    found = run(f"<script>{code}for(;;);</script>", seconds=9.0)
    assert found.ended == "time"
    assert found.stalls


def test_time_grows_with_what_is_compiled_and_decoded() -> None:
    assert find_seconds(0, 0) == 0.2
    assert find_seconds(40_000, 900_000) < 0.25
    assert find_seconds(700_000, 0) == 0.26
    assert 0.5 < find_seconds(700_000, 9_000_000) < 0.6
    assert find_seconds(0, 0, 900) == 0.2 < find_seconds(0, 0, 9_000) < 0.3


def test_a_page_that_runs_twice_has_the_time_of_one() -> None:
    budget = ScriptTime(seconds=9.0)
    page = read_html_nodes("<script>for(;;);</script>")
    assert run_page(page, budget, None, 0.19).ended == "time"
    assert 9.0 - budget.left < 0.15


def test_bytes_of_files_come_out_as_they_are() -> None:
    found = run("<script>new Blob([new Uint8Array(256).map((_, i) => i)])</script>")
    assert bytes(range(256)) in [file.content for file in found.files]
    assert read_bytes("?") == b""
