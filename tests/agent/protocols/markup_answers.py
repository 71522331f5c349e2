"""Answers about HTML, XML and configuration that contain the names of tools: 300, the same in each run."""

from __future__ import annotations

import random
from typing import Any

TOOLS: list[dict[str, Any]] = [
    {"name": name, "parameters": {
        "type": "object", "properties": {key: {"type": "string"} for key in keys}, "required": keys[:1]}}
    for name, keys in (
        ("terminal", ["command", "timeout"]), ("todo", ["items", "merge"]), ("memory", ["action", "content"]),
        ("read_file", ["path", "limit"]), ("search_files", ["pattern", "path"]), ("process", ["action", "id"]),
        ("clarify", ["question"]), ("ping", []),
    )
]  # fmt: skip
NAMES = [tool["name"] for tool in TOOLS]

MARKUP = (
    '<ul class="{name}">\n  <li>Buy milk</li>\n  <li>Call Ann</li>\n</ul>',
    '<div id="{name}"><h2>{name}</h2><input name="{other}" value="x"></div>',
    '<form action="/{name}" method="post">\n  <input type="text" name="{key}">\n  <button>{other}</button>\n</form>',
    '<{name}>\n  <item done="false">Water the plants</item>\n</{name}>',
    "<{name}/>",
    '<{name} enabled="true"><title>x</title></{name}>',
    '<config>\n  <{name} path="/usr/bin/xterm"/>\n  <{other}>false</{other}>\n</config>',
    '<tool name="{name}" enabled="true"/>',
    '<tools>\n  <tool name="{name}"/>\n  <tool name="{other}"/>\n</tools>',
    '<function name="{name}" returns="int"/>',
    '<action name="{name}"><keybind key="W-t"/></action>',
    '<option name="{key}" value="{name}"/>',
    '<bean id="{name}" class="org.example.{name}"><property name="{key}" value="1"/></bean>',
    "<dependency>\n  <groupId>org.example</groupId>\n  <artifactId>{name}</artifactId>\n</dependency>",
    '<custom-element data-tool="{name}"><slot name="{other}"></slot></custom-element>',
    '<!-- {name} -->\n<section><a href="#{name}">{other}</a></section>',
    '<template><{name}-list v-for="one in {other}"></{name}-list></template>',
    "{name}:\n  enabled: true\n  {key}: bash\n{other}:\n  enabled: false",
    "tools:\n  - name: {name}\n    {key}: x\n  - name: {other}",
    "[{name}]\n{key} = xterm\n\n[tools]\n{other} = on",
    "[TOOLS]\n{name}\n{other}",
    '{{"{name}": {{"{key}": "bash", "enabled": true}}, "{other}": null}}',
    '{{"tools": ["{name}", "{other}"], "default": "{name}"}}',
    '{{"name": "{name}", "version": "1.0.0", "scripts": {{"start": "node x.js"}}}}',
    'export {upper}_PATH="/usr/bin/{name}"\nalias t={name}',
    "location /{name} {{\n  proxy_pass http://localhost:8080/{other};\n}}",
    "{{% for one in {name} %}}<li>{{{{ one.{key} }}}}</li>{{% endfor %}}",
    "@media (min-width: 40em) {{ .{name} {{ color: red }} }}",
    "| option | meaning |\n|---|---|\n| {name} | the `{key}` to use |\n| <{other}> | an element |",
    '<xsl:template match="{name}"><xsl:call-template name="{other}"/></xsl:template>',
    '<xs:element name="{name}" type="xs:string"/>',
    "<plugin>{name}</plugin><configuration><{key}>x</{key}></configuration>",
    "<key>{name}</key>\n<string>{other}</string>\n<key>{key}</key>\n<true/>",
    '<Call name="{name}"><Arg>/var/log</Arg></Call>',
)
PROSE = (
    "Put this into your file:\n\n{block}",
    "{block}",
    "{block}\n\nThen restart it.",
    "The `{name}` element needs a closing tag:\n\n{block}\n\nYou can leave out `<{other}>`.",
    "```xml\n{block}\n```",
    "Use this:\n\n```\n{block}\n```\n\nThe tag <{name}> holds the list.",
    "The tag <{name}> begins it and </{name}> ends it, as in:\n\n{block}",
    "In YAML, `{name}: {{{key}: x}}` is short for\n\n{block}",
    "1. Open the settings.\n2. Add the lines\n\n{block}\n\n3. Save. The <{other}> part is optional.",
    "Here <{name}> is your own element, so HTML needs a dash in it (<my-{name}>).\n{block}",
    "    {block}\n\nis what the parser sees for {name}.",
    "> {name} is deprecated\n\nInstead write:\n{block}",
)


def answers() -> list[str]:
    """Return 300 answers; each block occurs in several kinds of prose."""
    chance = random.Random(33)  # noqa: S311 - choices of words, no secret
    found: dict[str, None] = {}
    while len(found) < 300:
        name, other = chance.sample(NAMES, 2)
        keys = next(tool for tool in TOOLS if tool["name"] == name)["parameters"]["properties"] or {"value": {}}
        words = {"name": name, "other": other, "key": chance.choice(list(keys)), "upper": name.upper()}
        block = MARKUP[len(found) % len(MARKUP)].format(**words)
        prose = chance.choice(PROSE)
        whole = prose.replace("{block}", "\0").format(**words).replace("\0", block)
        found[whole] = None
    return list(found)
