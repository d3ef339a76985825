"""A celery application that has made calls when its worker imports it, with a folder as broker and as backend."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from celery import Celery

import steadycall

URL = os.environ["ECHO_URL"]
FOLDER = Path(os.environ["BROKER_FOLDER"])
IMPORTED_IN = os.getpid()


def application(folder: Path) -> Celery:
    queue, control, results = (folder / name for name in ("queue", "control", "results"))
    for each in (queue, control, results):
        each.mkdir(exist_ok=True)
    application = Celery("prefork", broker="filesystem://", backend=f"file://{results}")
    application.conf.broker_transport_options = {
        "data_folder_in": str(queue),
        "data_folder_out": str(queue),
        "control_folder": str(control),
    }
    return application


app = application(FOLDER)

assert steadycall.call(URL, {"id": "preload"}) == {"id": "preload"}
assert asyncio.run(steadycall.acall(URL, {"id": "preload"})) == {"id": "preload"}


@app.task(name="ask")
def ask(number: int) -> dict[str, object]:
    request = {"id": number, "pid": os.getpid()}
    answer = steadycall.call(URL, request) if number % 2 else asyncio.run(steadycall.acall(URL, request))
    return answer | {"forked": os.getpid() != IMPORTED_IN}
