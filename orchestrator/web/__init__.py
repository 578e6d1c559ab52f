"""Pages for people: what REST answers, as HTML that a server wrote.

A page asks REST, in the same process and as the same caller, and shows the tables of ``orchestrator.reports``: so it
can neither disagree with the command line nor show more than its reader may see. Without JavaScript all of it works;
``static/live.js`` makes it follow what goes on.

``site.py: create_site`` puts pages beside REST. ``rest.py`` asks; ``page.py`` is what a page is made of, and how it
goes out; ``grid.py`` makes tables of cells that lead somewhere; ``browser.py`` answers errors as pages. The other
modules are the pages themselves.
"""
