"""Web pages that run: their scripts are executed in an interpreter with a stand-in browser, and what they do is noted.

`page_nodes` reads HTML and XML into the rows that the stand-in's document is made of; `runner` runs the scripts within
limits and sorts what they did. The stand-in browser is JavaScript, in the folder `browser`. Only a sealed worker runs
pages.
"""
