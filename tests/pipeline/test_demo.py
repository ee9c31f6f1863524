"""The demo: what its server answers, and what it refuses."""

import base64
import json
import socket
import struct
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect

from examples.demo.server import HEADERS, HOST, LARGEST, PAGE, load_rankers, serve, server
from rankgrad.io.checkpoints import build, save_model


def digit(label, size, top, left) -> dict:
    return {"label": label, "size": size, "top": top, "left": left}


SCENE = [digit(7, 0.5, 0.03, 0.45), digit(3, 0.36, 0.6, 0.05), digit(8, 0.2, 0.65, 0.6)]


@pytest.fixture(scope="module")
def ask():
    """Ask a server with the ranker that ships: status, headers and body of its reply."""
    with server({"mine": load_rankers()["RLSEP"]}, 0) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()

        def asked(method: str, path: str, body: str | bytes | None = None, **headers: str):
            connection = HTTPConnection(HOST, listening.server_port, timeout=20)
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()

        asked.port = listening.server_port
        yield asked
        listening.shutdown()


def test_a_scene_is_drawn_and_its_digits_are_ranked_by_size(ask):
    status, _, body = ask("POST", "/scene", json.dumps({"digits": SCENE}))
    answer = json.loads(body)
    pixels = base64.b64decode(answer["pixels"])
    assert (status, len(pixels)) == (200, answer["side"] ** 2)
    inked = [index for index, value in enumerate(pixels) if value]
    assert 0 < min(inked) // answer["side"] < 0.2 * answer["side"]  # the 7 is at the top
    assert answer["label_ranks"] == [0, 0, 0, 2, 0, 0, 0, 3, 1, 0]
    [model] = answer["models"]
    assert (model["name"], model["order"]) == ("mine", [7, 3, 8])
    assert sorted(range(10), key=lambda label: -model["scores"][label])[:3] == [7, 3, 8]


def scene(*box, label=3, times=1) -> str:
    return json.dumps({"digits": [digit(label, *box)] * times})


NAN = float("nan")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("", "Expecting value"), (b"\xff", "utf"), ('{"digits": [3]}', "3"), ('{"digits": [{"label": 3}]}', "size"),
        (scene(0.3, 0, 0, label=10), "label 10"), (scene(0.3, 0, 0, times=2), "label 3"),
        (scene(0.3, 0.8, 0), "inside"), (scene(NAN, 0.3, 0.1), "nan"), (scene(0.3, 0.1, NAN), "nan"),
        (scene(0.3, 0, True), "expected numbers"),
        ("[" * LARGEST, "recursion"), (" " * (LARGEST + 1), str(LARGEST)),
    ],
)  # fmt: skip
def test_what_is_no_scene_is_refused_with_a_reason(ask, body, named):
    status, _, reply = ask("POST", "/scene", body)
    assert status == 400
    assert named in json.loads(reply)["error"]


def test_clients_that_hang_up_leave_no_trace_and_a_length_that_is_none_is_refused(ask, capfd):
    with socket.create_connection((HOST, ask.port), timeout=20) as raw:
        raw.sendall(b"POST /scene HTTP/1.1\r\nContent-Length: -1\r\n\r\n")
        assert raw.recv(100).split()[1] == b"400"
    for _ in range(20):
        with socket.create_connection((HOST, ask.port)) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # hangs up at once
    assert ask("GET", "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_the_page_is_the_only_one_by_no_other_name_and_loads_nothing_from_elsewhere(ask):
    status, headers, body = ask("GET", "/")
    assert (status, body) == (200, PAGE.read_bytes())
    assert headers.items() >= HEADERS.items()
    assert b"//" not in body.replace(b"// ", b"")  # no address
    assert [ask("GET", "/../server.py")[0], ask("POST", "/")[0]] == [404, 404]
    for host, expected in (
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.net", 403),
    ):
        assert ask("GET", "/", Host=host)[0] == expected


def test_in_a_browser_orders_follow_the_keys_and_the_mouse_and_it_fits_a_phone(ask, page):
    def orders(first: str) -> None:
        """Wait until this digit is the first of the true order and of the network's."""
        for row in ("#truth", "#models"):
            expect(page.locator(f"{row} .chip").first).to_have_text(first)

    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_viewport_size({"width": 390, "height": 900})
    address = f"http://{HOST}:{ask.port}/"
    page.goto(address)
    orders("7")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.focus("#box7")
    for _ in range(15):
        page.keyboard.press("-")
    orders("3")
    corner = page.locator("#box7 .handle").bounding_box()
    page.mouse.move(corner["x"] + 5, corner["y"] + 5)
    page.mouse.down()
    page.mouse.move(corner["x"] + 85, corner["y"] + 85, steps=3)
    page.mouse.up()
    orders("7")
    page.get_by_role("button", name="7", exact=True).click()
    orders("3")
    assert page.locator("#box7").count() == 0
    assert len(requests) > 4
    assert all(url.startswith(address) for url in requests)


def test_a_port_in_use_and_a_folder_without_a_ranker_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with server({}, 0) as listening, pytest.raises(ValueError, match=rf"{listening.server_port}.*--port"):
        serve(port=listening.server_port)
    with pytest.raises(FileNotFoundError, match=r"absent: .*model\.json"):
        serve([Path("absent")])
    save_model("sorter", build("sorters", "comparator", {}, seed=0))
    with pytest.raises(ValueError, match="sorter.*label_ranking"):
        serve([Path("sorter")])
