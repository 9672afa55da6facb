"""Figures of where gold chunks stand: similarity, rank, projection, and the weight of the question."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from adaptrag_cli.report.figure import Axis, Dash, Figure, Series, Table, absent, ordinals, percent
from adaptrag_cli.report.gold import GoldChunk, gold_chunks, rank_shares, similarity_shares
from adaptrag_cli.report.lines import Line
from adaptrag_cli.report.projection import GROUPS, ProjectedChunk, Projection
from adaptrag_cli.report.weights import WeightLine, WeightPoint, weight_lines, weight_points
from adaptrag_cli.selection import ALPHA_LINE

_TWO_PATHS = "needs dpr-ais, dtr or pairs"
_NO_GOLD = f"{_TWO_PATHS} on a set that names its gold passages, and a gold chunk among those that were found"
_GROUP_NAMES = {"query": "query chunks", "pseudo-context": "context chunks", "gold": "gold chunks"}
_SHARE = Axis(title="% of gold chunks", scale="percent")


def chunk_figures(lines: Sequence[Line], projections: Sequence[Projection], *, no_vectors: str) -> tuple[Figure, ...]:
    """The five figures; `no_vectors` says why there are no projections, where there are none."""
    chunks = gold_chunks(lines)
    points = weight_points(lines)
    return (
        _similarity(lines, chunks),
        _ranks(lines, chunks),
        *_projected(projections, no_vectors),
        _weights(lines, points, weight_lines(points)),
    )


def _similarity(lines: Sequence[Line], chunks: Sequence[GoldChunk]) -> Figure:
    title, source = "Similarity of gold chunks to question and pseudo-context", "DTR Fig. 7"
    shares = similarity_shares(chunks)
    if not shares:
        return absent("similarity", title, source, _NO_GOLD)
    colours = ordinals([share.to for share in shares])
    panels = _with_chunks(lines, chunks)
    series = tuple(
        Series(
            panel=panel,
            name=f"to the {to}",
            x=tuple((share.low + share.high) / 2 for share in part),
            y=tuple(share.share for share in part),
            mark="linked",
            colour=colour,
            dash=_dash(colour),
            words=tuple(f"{share.low:.2f} to {share.high:.2f}: {share.chunks} chunks" for share in part),
        )
        for panel in panels
        for to, colour in colours.items()
        if (part := [share for share in shares if (share.line, share.to) == (panel, to)])
    )
    return Figure(
        name="similarity",
        title=title,
        source=source,
        reading="The further right, the easier a gold chunk is found; a pseudo-context helps where its line lies to "
        "the right of the question's.",
        notes=_found_by(chunks),
        x=Axis(title="inner product of unit vectors"),
        y=_SHARE,
        panels=panels,
        series=series,
        data=Table(
            columns=("line", "to", "from", "up to", "gold chunks", "share"),
            rows=tuple((s.line, s.to, s.low, s.high, s.chunks, s.share) for s in shares),
        ),
        brief=Table(
            columns=("line", "to", "from", "up to", "gold chunks", "%"),
            rows=tuple(
                (s.line, s.to, f"{s.low:.2f}", f"{s.high:.2f}", s.chunks, percent(s.share)) for s in shares if s.chunks
            ),
        ),
    )


def _ranks(lines: Sequence[Line], chunks: Sequence[GoldChunk]) -> Figure:
    title, source = "Rank of gold chunks on each path", "DTR Fig. 8"
    shares = rank_shares(chunks)
    if not shares:
        return absent("rank", title, source, _NO_GOLD)
    colours = ordinals([share.path for share in shares])
    panels = _with_chunks(lines, chunks)
    series = tuple(
        Series(
            panel=panel,
            name=f"{path} path",
            x=tuple("missed" if share.rank is None else str(share.rank) for share in part),
            y=tuple(share.share for share in part),
            mark="bars",
            colour=colour,
            words=tuple(f"{share.chunks} chunks" for share in part),
        )
        for panel in panels
        for path, colour in colours.items()
        if (part := [share for share in shares if (share.line, share.path) == (panel, path)])
    )
    data = Table(
        columns=("line", "path", "rank", "gold chunks", "share"),
        rows=tuple((s.line, s.path, "missed" if s.rank is None else s.rank, s.chunks, s.share) for s in shares),
    )
    return Figure(
        name="rank",
        title=title,
        source=source,
        reading='The bar over "missed" is what one path alone would have lost and the other found.',
        notes=(*_found_by(chunks), "Gold chunks that neither path found are not counted."),
        x=Axis(title="rank on the path", scale="category"),
        y=_SHARE,
        panels=panels,
        series=series,
        data=data,
        brief=Table(
            columns=("line", "path", "rank", "gold chunks", "%"),
            rows=tuple((*row[:4], percent(share.share)) for row, share in zip(data.rows, shares, strict=True)),
        ),
    )


def _projected(projections: Sequence[Projection], no_vectors: str) -> tuple[Figure, Figure]:
    title = "Where chunks lie as seen from the question"
    sources = ("DTR Fig. 9", "DTR Fig. 10, PAIRS Fig. 8")
    if not projections:
        return (
            absent("projection", title, sources[0], no_vectors),
            absent("projection-polar", f"{title}, in polar form", sources[1], no_vectors),
        )
    data = Table(
        columns=("line", "set", "question", "chunk", "group", "x", "y", "radius", "degrees"),
        rows=tuple(
            (c.line, c.set, c.question_id, c.chunk_id, c.group, c.x, c.y, c.radius, c.degrees)
            for projection in projections
            for c in projection.chunks
        ),
    )
    notes = tuple(
        f"{p.line}: {p.questions} questions, chunks of {p.source}, and all gold chunks, found or not; the plane holds "
        f"{percent(p.explained)} % of the variance"
        for p in projections
    )
    panels = tuple(projection.line for projection in projections)
    brief = Table(
        columns=("line", "group", "chunks", "median distance"),
        rows=tuple(
            (p.line, _GROUP_NAMES[group], len(radii), f"{_median(radii):.3f}")
            for p in projections
            for group in GROUPS
            if (radii := [c.radius for c in p.chunks if c.group == group])
        ),
    )
    flat = Figure(
        name="projection",
        title=title,
        source=sources[0],
        reading="The question is the origin: where gold chunks lie among the context chunks and away from the query "
        "chunks, the pseudo-context reaches what the question does not.",
        notes=notes,
        x=Axis(title="first principal component"),
        y=Axis(title="second principal component"),
        is_isometric=True,
        panels=panels,
        series=tuple(s for p in projections for s in _clouds(p, is_polar=False)),
        data=data,
        brief=brief,
    )
    polar = Figure(
        name="projection-polar",
        title=f"{title}, in polar form",
        source=sources[1],
        reading="Distance from the middle is distance from the question within the plane; the angle says in which "
        "direction.",
        notes=notes,
        panels=panels,
        series=tuple(s for p in projections for s in _clouds(p, is_polar=True)),
        is_polar=True,
        data=data,
        brief=brief,
    )
    return flat, polar


def _clouds(projection: Projection, *, is_polar: bool) -> list[Series]:
    clouds = []
    for colour, group in enumerate(GROUPS):
        chunks = [chunk for chunk in projection.chunks if chunk.group == group]
        if chunks:
            clouds.append(_cloud(projection.line, _GROUP_NAMES[group], colour, chunks, is_polar=is_polar))
    clouds.append(
        Series(panel=projection.line, name="question", x=(0.0,), y=(0.0,), mark="dots", colour=len(GROUPS), words=("",))
    )
    return clouds


def _cloud(panel: str, name: str, colour: int, chunks: Sequence[ProjectedChunk], *, is_polar: bool) -> Series:
    return Series(
        panel=panel,
        name=name,
        x=tuple(c.degrees if is_polar else c.x for c in chunks),
        y=tuple(c.radius if is_polar else c.y for c in chunks),
        mark="dots",
        colour=colour,
        is_hollow=name == _GROUP_NAMES["gold"],
        words=tuple(f"{c.chunk_id}, question {c.question_id}" for c in chunks),
    )


def _weights(lines: Sequence[Line], points: Sequence[WeightPoint], fitted: Sequence[WeightLine]) -> Figure:
    title, source = "Weight of the question against its angle to the pseudo-context", "PAIRS Fig. 10"
    if not points:
        return absent("alpha", title, source, _NO_GOLD)
    colours = ordinals([line.name for line in lines])
    ends = (min(point.theta0 for point in points), max(point.theta0 for point in points))
    series = []
    for line in lines:
        own = [point for point in points if point.line == line.name]
        series.append(
            Series(
                panel="",
                name=f"{line.name}: gold chunks",
                x=tuple(point.theta0 for point in own),
                y=tuple(point.alpha for point in own),
                mark="dots",
                colour=colours[line.name],
                words=tuple(f"{point.chunk_id}, question {point.question_id}" for point in own),
            )
        )
    series += [
        Series(
            panel="",
            name=f"{fit.line}: least squares",
            x=ends,
            y=tuple(fit.slope * theta0 + fit.intercept for theta0 in ends),
            colour=colours[fit.line],
        )
        for fit in fitted
    ]
    slope, intercept = ALPHA_LINE
    paper = tuple(slope * theta0 + intercept for theta0 in ends)
    series.append(Series(panel="", name="PAIRS' line", x=ends, y=paper, colour=len(colours), dash="dash"))
    facts = tuple((f.line, f.chunks, f"{f.slope:.3f}", f"{f.intercept:.3f}", f"{f.explained:.3f}") for f in fitted)
    return Figure(
        name="alpha",
        title=title,
        source=source,
        reading="A line that rises says that the question should count more the further the pseudo-context strays; "
        "near 0.5, weighting changes little.",
        notes=tuple(
            f"{f.line}: alpha* = {f.slope:.3f} theta0 + {f.intercept:.3f} (R² {f.explained:.3f}, {f.chunks} chunks); "
            f"PAIRS: {slope:.3f} theta0 + {intercept:.3f}"
            for f in fitted
        ),
        x=Axis(title="theta0 between question and pseudo-context (radians)"),
        y=Axis(title="alpha* = theta2 / (theta1 + theta2)"),
        panels=("",),
        series=tuple(s for s in series if s.x),
        data=Table(
            columns=("line", "set", "question", "chunk", "theta0", "alpha*"),
            rows=tuple((p.line, p.set, p.question_id, p.chunk_id, p.theta0, p.alpha) for p in points),
        ),
        brief=Table(
            columns=("line", "gold chunks", "slope", "intercept", "R²"),
            rows=(*facts, ("PAIRS (HotpotQA)", "", f"{slope:.3f}", f"{intercept:.3f}", "")),
        ),
    )


def _with_chunks(lines: Sequence[Line], chunks: Sequence[GoldChunk]) -> tuple[str, ...]:
    found = {chunk.line for chunk in chunks}
    return tuple(line.name for line in lines if line.name in found)


def _found_by(chunks: Sequence[GoldChunk]) -> tuple[str, ...]:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for chunk in chunks:
        counts[(chunk.line, chunk.source)] += 1
    return tuple(f"{line}: {count} gold chunks that {source} found" for (line, source), count in counts.items())


def _dash(number: int) -> Dash:
    return ("solid", "dash", "dot")[number % 3]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) / 2
    return (ordered[math.ceil(middle) - 1] + ordered[math.floor(middle)]) / 2
