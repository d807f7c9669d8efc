"""An MCP server over stdio with one reading tool that waits for a file: `gate_mcp.py <file of calls> <gate>`.

It speaks the protocol by hand, because it starts in a tenth of the time the SDK takes.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

TOOL = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {"type": "object", "properties": {}},
    "annotations": {"readOnlyHint": True},
}


def result_of(method: str, params: dict[str, Any], calls: Path, gate: Path) -> dict[str, Any] | None:
    """Answer one request; None for a method this server does not know."""
    if method == "initialize":
        info = {"name": "gate", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        with calls.open("a") as lines:
            lines.write("x\n")
        while not gate.exists():
            threading.Event().wait(0.05)
        return {"content": [{"type": "text", "text": "seen"}], "isError": False}
    return {} if method == "ping" else None


def main(calls: Path, gate: Path) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = result_of(asked["method"], asked.get("params") or {}, calls, gate)
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
