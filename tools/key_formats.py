"""Formats of well-known keys and tokens, each with a literal that every key of the format contains.

The prefixes and lengths are published by the vendors, most of them for secret scanning
(https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns).
"""

from __future__ import annotations

from collections.abc import Mapping

_WORD = "[A-Za-z0-9_-]"

FORMATS: Mapping[str, str] = {
    # model providers
    "sk-": rf"\bsk-(?:proj-|ant-|or-v1-|svcacct-)?{_WORD}{{20,}}",
    "gsk_": r"\bgsk_[A-Za-z0-9]{40,}",
    "xai-": r"\bxai-[A-Za-z0-9]{40,}",
    "pplx-": r"\bpplx-[A-Za-z0-9]{40,}",
    "hf_": r"\bhf_[A-Za-z0-9]{30,}",
    "r8_": r"\br8_[A-Za-z0-9]{30,}",
    # code and packages
    **{f"gh{kind}_": rf"\bgh{kind}_[A-Za-z0-9]{{36,}}" for kind in "pousr"},
    "github_pat_": r"\bgithub_pat_[A-Za-z0-9_]{40,}",
    **{f"gl{kind}-": rf"\bgl{kind}-[A-Za-z0-9_.-]{{20,}}" for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "soat", "agent")},
    "npm_": r"\bnpm_[A-Za-z0-9]{36}",
    "pypi-": rf"\bpypi-AgE{_WORD}{{40,}}",
    "rubygems_": r"\brubygems_[0-9a-f]{48}",
    "dckr_pat_": rf"\bdckr_pat_{_WORD}{{20,}}",
    "sgp_": r"\bsgp_[A-Za-z0-9_]{40,}",
    "CCIPAT_": r"\bCCIPAT_[A-Za-z0-9_]{40,}",
    "bkua_": r"\bbkua_[0-9a-f]{40}",
    # clouds and hosting
    **{kind: rf"\b{kind}[0-9A-Z]{{16}}\b" for kind in ("AKIA", "ASIA", "ABIA", "ACCA")},
    "AIza": rf"\bAIza{_WORD}{{35}}",
    "GOCSPX-": rf"\bGOCSPX-{_WORD}{{28}}",
    "ya29.": rf"\bya29\.{_WORD}{{30,}}",
    "AccountKey=": r"\bAccountKey=[A-Za-z0-9+/]{86}==",
    "Q~": r"\b[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",
    **{f"do{kind}_v1_": rf"\bdo{kind}_v1_[0-9a-f]{{64}}" for kind in "por"},
    "HRKU-": rf"\bHRKU-{_WORD}{{30,}}",
    "dapi": r"\bdapi[0-9a-f]{32}\b",
    "hvs.": rf"\bhvs\.{_WORD}{{24,}}",
    "hvb.": rf"\bhvb\.{_WORD}{{24,}}",
    ".atlasv1.": rf"\b[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{60,}}",
    "pul-": r"\bpul-[0-9a-f]{40}\b",
    "dp.": r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    "tskey-": rf"\btskey-[a-z]+-{_WORD}{{20,}}",
    "nfp_": r"\bnfp_[A-Za-z0-9]{36,}",
    "fm2_": r"\bfm2_[A-Za-z0-9+/=]{60,}",
    "sbp_": r"\bsbp_[0-9a-f]{40}",
    "pscale_": rf"\bpscale_(?:tkn|pw|oauth)_{_WORD}{{32,}}",
    # payments and messages
    **{f"{kind}_{mode}_": rf"\b{kind}_{mode}_[A-Za-z0-9]{{16,}}" for kind in ("sk", "rk") for mode in ("live", "test")},
    "whsec_": r"\bwhsec_[A-Za-z0-9+/=]{24,}",
    "sq0": rf"\bsq0(?:atp|csp)-{_WORD}{{22,}}",
    **{f"shp{kind}_": rf"\bshp{kind}_[0-9A-Fa-f]{{32}}" for kind in ("at", "ca", "pa", "ss")},
    "xox": r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}",
    "xapp-": r"\bxapp-\d-[A-Za-z0-9-]{20,}",
    "hooks.slack.com/": r"\bhooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/-]{20,}",
    "/api/webhooks/": rf"\bdiscord(?:app)?\.com/api/webhooks/\d+/{_WORD}{{40,}}",
    ":AA": rf"\b\d{{8,10}}:AA{_WORD}{{32,}}",
    "SG.": rf"\bSG\.{_WORD}{{16,}}\.{_WORD}{{30,}}",
    "-us": r"\b[0-9a-f]{32}-us\d{1,2}\b",
    "key-": r"\bkey-[0-9a-f]{32}\b",
    # services
    "ATATT3": rf"\bATATT3{_WORD}{{50,}}=?[0-9A-F]*",
    "lin_api_": r"\blin_api_[A-Za-z0-9]{32,}",
    "ntn_": r"\bntn_[A-Za-z0-9]{40,}",
    "figd_": rf"\bfigd_{_WORD}{{32,}}",
    "PMAK-": r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "NRAK-": r"\bNRAK-[A-Z0-9]{27}",
    "glsa_": r"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}",
    "glc_": r"\bglc_[A-Za-z0-9+/]{32,}={0,2}",
    "sntrys_": r"\bsntrys_[A-Za-z0-9+/=_]{60,}",
    "sntryu_": r"\bsntryu_[0-9a-f]{64}",
    "dt0c01.": r"\bdt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
    # signed tokens and private keys
    "eyJ": rf"\beyJ{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{10,}}",
    "AGE-SECRET-KEY-1": r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}",
    "PRIVATE KEY": r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
}
"""Patterns of keys by literal. The literal is searched first, because the pattern takes a hundred times as long."""
