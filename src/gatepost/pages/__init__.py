"""Web pages that run: their scripts are executed in an interpreter with a stand-in browser, and what they do is noted.

`page_nodes` reads HTML into the rows that the stand-in's document is made of, and `xml_page` does so for XML (SVG,
XHTML). `runner` runs the scripts within limits, and `effects` sorts what they did: files made and saved, pages written,
addresses gone to, requests, text for the clipboard. The stand-in browser itself is JavaScript, in the folder `browser`.
Only a sealed worker runs pages.
"""
