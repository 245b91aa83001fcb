"""What `manage.py up` prints when everything is ready."""

from __future__ import annotations

from controlplane.launch.layout import Layout


def banner(layout: Layout, model: str) -> str:
    password = (layout.secrets / "admin-password").read_text().strip()
    key = (layout.secrets / "serving-key").read_text().strip()
    question = '{"role": "user", "content": "What is the capital of France?"}'
    return f"""
Tandem is serving {model}.

  Console       {layout.console_url}
  Login         admin / {password}
  Serving API   {layout.router_url}/v1
  Serving key   {key}

Try it:

  curl -N {layout.router_url}/v1/chat/completions \\
    -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "stream": true, "temperature": 0.2, "messages": [{question}]}}'

Logs are in {layout.logs}. Ctrl-C stops everything; the next `make up` goes on with the same data.
"""
