"""Scripts that the browser's tests run inside the page to measure what a person would see."""

from __future__ import annotations

_BOXES = """
    const canvas = document.querySelector('.canvas').getBoundingClientRect();
    const nodes = [...document.querySelectorAll('.react-flow__node')];
    const boxes = nodes.map((e) => [e.dataset.id, e.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const seen = (b) => b.left >= canvas.left && b.right <= canvas.right && b.top >= canvas.top
        && b.bottom <= canvas.bottom;
    const overlaps = boxes.flatMap(([id, a], n) =>
        boxes.slice(n + 1).filter(([, b]) => meet(a, b)).map(([other]) => `${id} lies on ${other}`));
"""

#: What is wrong with the look of the canvas, and the smallest label in pixels of the screen.
FIRST_LOOK = f"""() => {{ {_BOXES}
    const zoom = new DOMMatrix(getComputedStyle(document.querySelector('.react-flow__viewport')).transform).a;
    const bad = [...overlaps, ...boxes.filter(([, b]) => !seen(b)).map(([id]) => `${{id}} is out of sight`)];
    for (const node of nodes) {{
        const edge = node.getBoundingClientRect().right - 4;
        for (const e of node.querySelectorAll('h2, .pin-name, .block-op, .legend, button, .heat-cells')) {{
            const cut = e.getBoundingClientRect().right > edge
                || (e.matches('h2') && e.scrollWidth > e.clientWidth + 1);
            if (cut) bad.push(`${{node.dataset.id}}: ${{e.innerText}} is cut`);
        }}
    }}
    for (const path of document.querySelectorAll('.react-flow__edge-path')) {{
        const name = path.closest('.react-flow__edge').getAttribute('aria-label');
        for (let k = 0; k <= 60; k += 1) {{
            const point = path.getPointAtLength(path.getTotalLength() * k / 60);
            const {{ x, y }} = point.matrixTransform(path.getScreenCTM());
            for (const [id, b] of boxes) {{
                const behind = x > b.left + 8 && x < b.right - 8 && y > b.top && y < b.bottom;
                if (behind) bad.push(`${{name}} runs behind ${{id}}`);
            }}
        }}
    }}
    const labels = 'h2, .pin-name, dt, dd, .tensor-line, .legend, .numbers';
    const sizes = nodes.flatMap((n) => [...n.querySelectorAll(labels)]).map((e) => getComputedStyle(e).fontSize);
    return {{ bad: [...new Set(bad)], smallest: zoom * Math.min(...sizes.map(parseFloat)) }};
}}"""

#: Which blocks lie on another, and whether the selected one is in sight.
PLACES = f"""() => {{ {_BOXES}
    return [overlaps, seen(document.querySelector('.react-flow__node.selected').getBoundingClientRect())];
}}"""

#: How many opened files the browser keeps.
KEPT_FILES = """new Promise((done) => {
    const open = indexedDB.open('poolgrad', 1);
    open.onsuccess = () => {
        const all = open.result.transaction('uploads').objectStore('uploads').getAllKeys();
        all.onsuccess = () => { open.result.close(); done(all.result.length); };
    };
})"""

#: Makes them look as if they had been opened long ago.
AGE_FILES = """new Promise((done) => {
    const open = indexedDB.open('poolgrad', 1);
    open.onsuccess = () => {
        const change = open.result.transaction('uploads', 'readwrite');
        const walk = change.objectStore('uploads').openCursor();
        walk.onsuccess = () => {
            const at = walk.result;
            if (at) { at.update({...at.value, at: 0}); at.continue(); }
        };
        change.oncomplete = () => { open.result.close(); done(); };
    };
})"""

#: Whether the corner of the first cell is painted on an overlay, and whether the middle is, where its number stands.
#: A cell is 32 wide and begins 5 within the overlay; the argument is the overlay's pixels for each of these.
CORNER_AND_MIDDLE = """(c, k) => {
    const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    const at = (x, y) => data[4 * (Math.round(y * k) * c.width + Math.round(x * k)) + 3] > 0;
    const middle = [];
    for (let x = 10; x < 32; x += 1) for (let y = 16; y < 26; y += 1) middle.push(at(x, y));
    return [at(8, 8), middle.some(Boolean)];
}"""
