package jinja

// Where Python's case mappings differ from Go's, which map a character to one
// character only, and what Go's tables don't have. Computed from CPython's
// unicodedata; never modified.

// upperSpecial is the upper case of characters where unicode.ToUpper is not.
//
//nolint:gochecknoglobals // a table that nothing changes
var upperSpecial = map[rune]string{
	0xdf: "\u0053\u0053", 0x149: "\u02bc\u004e", 0x1f0: "\u004a\u030c", 0x390: "\u0399\u0308\u0301",
	0x3b0: "\u03a5\u0308\u0301", 0x587: "\u0535\u0552", 0x1e96: "\u0048\u0331", 0x1e97: "\u0054\u0308",
	0x1e98: "\u0057\u030a", 0x1e99: "\u0059\u030a", 0x1e9a: "\u0041\u02be", 0x1f50: "\u03a5\u0313",
	0x1f52: "\u03a5\u0313\u0300", 0x1f54: "\u03a5\u0313\u0301", 0x1f56: "\u03a5\u0313\u0342", 0x1f80: "\u1f08\u0399",
	0x1f81: "\u1f09\u0399", 0x1f82: "\u1f0a\u0399", 0x1f83: "\u1f0b\u0399", 0x1f84: "\u1f0c\u0399",
	0x1f85: "\u1f0d\u0399", 0x1f86: "\u1f0e\u0399", 0x1f87: "\u1f0f\u0399", 0x1f88: "\u1f08\u0399",
	0x1f89: "\u1f09\u0399", 0x1f8a: "\u1f0a\u0399", 0x1f8b: "\u1f0b\u0399", 0x1f8c: "\u1f0c\u0399",
	0x1f8d: "\u1f0d\u0399", 0x1f8e: "\u1f0e\u0399", 0x1f8f: "\u1f0f\u0399", 0x1f90: "\u1f28\u0399",
	0x1f91: "\u1f29\u0399", 0x1f92: "\u1f2a\u0399", 0x1f93: "\u1f2b\u0399", 0x1f94: "\u1f2c\u0399",
	0x1f95: "\u1f2d\u0399", 0x1f96: "\u1f2e\u0399", 0x1f97: "\u1f2f\u0399", 0x1f98: "\u1f28\u0399",
	0x1f99: "\u1f29\u0399", 0x1f9a: "\u1f2a\u0399", 0x1f9b: "\u1f2b\u0399", 0x1f9c: "\u1f2c\u0399",
	0x1f9d: "\u1f2d\u0399", 0x1f9e: "\u1f2e\u0399", 0x1f9f: "\u1f2f\u0399", 0x1fa0: "\u1f68\u0399",
	0x1fa1: "\u1f69\u0399", 0x1fa2: "\u1f6a\u0399", 0x1fa3: "\u1f6b\u0399", 0x1fa4: "\u1f6c\u0399",
	0x1fa5: "\u1f6d\u0399", 0x1fa6: "\u1f6e\u0399", 0x1fa7: "\u1f6f\u0399", 0x1fa8: "\u1f68\u0399",
	0x1fa9: "\u1f69\u0399", 0x1faa: "\u1f6a\u0399", 0x1fab: "\u1f6b\u0399", 0x1fac: "\u1f6c\u0399",
	0x1fad: "\u1f6d\u0399", 0x1fae: "\u1f6e\u0399", 0x1faf: "\u1f6f\u0399", 0x1fb2: "\u1fba\u0399",
	0x1fb3: "\u0391\u0399", 0x1fb4: "\u0386\u0399", 0x1fb6: "\u0391\u0342", 0x1fb7: "\u0391\u0342\u0399",
	0x1fbc: "\u0391\u0399", 0x1fc2: "\u1fca\u0399", 0x1fc3: "\u0397\u0399", 0x1fc4: "\u0389\u0399",
	0x1fc6: "\u0397\u0342", 0x1fc7: "\u0397\u0342\u0399", 0x1fcc: "\u0397\u0399", 0x1fd2: "\u0399\u0308\u0300",
	0x1fd3: "\u0399\u0308\u0301", 0x1fd6: "\u0399\u0342", 0x1fd7: "\u0399\u0308\u0342", 0x1fe2: "\u03a5\u0308\u0300",
	0x1fe3: "\u03a5\u0308\u0301", 0x1fe4: "\u03a1\u0313", 0x1fe6: "\u03a5\u0342", 0x1fe7: "\u03a5\u0308\u0342",
	0x1ff2: "\u1ffa\u0399", 0x1ff3: "\u03a9\u0399", 0x1ff4: "\u038f\u0399", 0x1ff6: "\u03a9\u0342",
	0x1ff7: "\u03a9\u0342\u0399", 0x1ffc: "\u03a9\u0399", 0xfb00: "\u0046\u0046", 0xfb01: "\u0046\u0049",
	0xfb02: "\u0046\u004c", 0xfb03: "\u0046\u0046\u0049", 0xfb04: "\u0046\u0046\u004c", 0xfb05: "\u0053\u0054",
	0xfb06: "\u0053\u0054", 0xfb13: "\u0544\u0546", 0xfb14: "\u0544\u0535", 0xfb15: "\u0544\u053b",
	0xfb16: "\u054e\u0546", 0xfb17: "\u0544\u053d",
}

// titleSpecial is the title case of characters where unicode.ToTitle is not.
//
//nolint:gochecknoglobals // a table that nothing changes
var titleSpecial = map[rune]string{
	0xdf: "\u0053\u0073", 0x149: "\u02bc\u004e", 0x1f0: "\u004a\u030c", 0x390: "\u0399\u0308\u0301",
	0x3b0: "\u03a5\u0308\u0301", 0x587: "\u0535\u0582", 0x1e96: "\u0048\u0331", 0x1e97: "\u0054\u0308",
	0x1e98: "\u0057\u030a", 0x1e99: "\u0059\u030a", 0x1e9a: "\u0041\u02be", 0x1f50: "\u03a5\u0313",
	0x1f52: "\u03a5\u0313\u0300", 0x1f54: "\u03a5\u0313\u0301", 0x1f56: "\u03a5\u0313\u0342", 0x1fb2: "\u1fba\u0345",
	0x1fb4: "\u0386\u0345", 0x1fb6: "\u0391\u0342", 0x1fb7: "\u0391\u0342\u0345", 0x1fc2: "\u1fca\u0345",
	0x1fc4: "\u0389\u0345", 0x1fc6: "\u0397\u0342", 0x1fc7: "\u0397\u0342\u0345", 0x1fd2: "\u0399\u0308\u0300",
	0x1fd3: "\u0399\u0308\u0301", 0x1fd6: "\u0399\u0342", 0x1fd7: "\u0399\u0308\u0342", 0x1fe2: "\u03a5\u0308\u0300",
	0x1fe3: "\u03a5\u0308\u0301", 0x1fe4: "\u03a1\u0313", 0x1fe6: "\u03a5\u0342", 0x1fe7: "\u03a5\u0308\u0342",
	0x1ff2: "\u1ffa\u0345", 0x1ff4: "\u038f\u0345", 0x1ff6: "\u03a9\u0342", 0x1ff7: "\u03a9\u0342\u0345",
	0xfb00: "\u0046\u0066", 0xfb01: "\u0046\u0069", 0xfb02: "\u0046\u006c", 0xfb03: "\u0046\u0066\u0069",
	0xfb04: "\u0046\u0066\u006c", 0xfb05: "\u0053\u0074", 0xfb06: "\u0053\u0074", 0xfb13: "\u0544\u0576",
	0xfb14: "\u0544\u0565", 0xfb15: "\u0544\u056b", 0xfb16: "\u054e\u0576", 0xfb17: "\u0544\u056d",
}

// foldSpecial is the case folding of characters where unicode.ToLower is not.
//
//nolint:gochecknoglobals // a table that nothing changes
var foldSpecial = map[rune]string{
	0xb5: "\u03bc", 0xdf: "\u0073\u0073", 0x130: "\u0069\u0307", 0x149: "\u02bc\u006e",
	0x17f: "\u0073", 0x1f0: "\u006a\u030c", 0x345: "\u03b9", 0x390: "\u03b9\u0308\u0301",
	0x3b0: "\u03c5\u0308\u0301", 0x3c2: "\u03c3", 0x3d0: "\u03b2", 0x3d1: "\u03b8",
	0x3d5: "\u03c6", 0x3d6: "\u03c0", 0x3f0: "\u03ba", 0x3f1: "\u03c1",
	0x3f5: "\u03b5", 0x587: "\u0565\u0582", 0x13a0: "\u13a0", 0x13a1: "\u13a1",
	0x13a2: "\u13a2", 0x13a3: "\u13a3", 0x13a4: "\u13a4", 0x13a5: "\u13a5",
	0x13a6: "\u13a6", 0x13a7: "\u13a7", 0x13a8: "\u13a8", 0x13a9: "\u13a9",
	0x13aa: "\u13aa", 0x13ab: "\u13ab", 0x13ac: "\u13ac", 0x13ad: "\u13ad",
	0x13ae: "\u13ae", 0x13af: "\u13af", 0x13b0: "\u13b0", 0x13b1: "\u13b1",
	0x13b2: "\u13b2", 0x13b3: "\u13b3", 0x13b4: "\u13b4", 0x13b5: "\u13b5",
	0x13b6: "\u13b6", 0x13b7: "\u13b7", 0x13b8: "\u13b8", 0x13b9: "\u13b9",
	0x13ba: "\u13ba", 0x13bb: "\u13bb", 0x13bc: "\u13bc", 0x13bd: "\u13bd",
	0x13be: "\u13be", 0x13bf: "\u13bf", 0x13c0: "\u13c0", 0x13c1: "\u13c1",
	0x13c2: "\u13c2", 0x13c3: "\u13c3", 0x13c4: "\u13c4", 0x13c5: "\u13c5",
	0x13c6: "\u13c6", 0x13c7: "\u13c7", 0x13c8: "\u13c8", 0x13c9: "\u13c9",
	0x13ca: "\u13ca", 0x13cb: "\u13cb", 0x13cc: "\u13cc", 0x13cd: "\u13cd",
	0x13ce: "\u13ce", 0x13cf: "\u13cf", 0x13d0: "\u13d0", 0x13d1: "\u13d1",
	0x13d2: "\u13d2", 0x13d3: "\u13d3", 0x13d4: "\u13d4", 0x13d5: "\u13d5",
	0x13d6: "\u13d6", 0x13d7: "\u13d7", 0x13d8: "\u13d8", 0x13d9: "\u13d9",
	0x13da: "\u13da", 0x13db: "\u13db", 0x13dc: "\u13dc", 0x13dd: "\u13dd",
	0x13de: "\u13de", 0x13df: "\u13df", 0x13e0: "\u13e0", 0x13e1: "\u13e1",
	0x13e2: "\u13e2", 0x13e3: "\u13e3", 0x13e4: "\u13e4", 0x13e5: "\u13e5",
	0x13e6: "\u13e6", 0x13e7: "\u13e7", 0x13e8: "\u13e8", 0x13e9: "\u13e9",
	0x13ea: "\u13ea", 0x13eb: "\u13eb", 0x13ec: "\u13ec", 0x13ed: "\u13ed",
	0x13ee: "\u13ee", 0x13ef: "\u13ef", 0x13f0: "\u13f0", 0x13f1: "\u13f1",
	0x13f2: "\u13f2", 0x13f3: "\u13f3", 0x13f4: "\u13f4", 0x13f5: "\u13f5",
	0x13f8: "\u13f0", 0x13f9: "\u13f1", 0x13fa: "\u13f2", 0x13fb: "\u13f3",
	0x13fc: "\u13f4", 0x13fd: "\u13f5", 0x1c80: "\u0432", 0x1c81: "\u0434",
	0x1c82: "\u043e", 0x1c83: "\u0441", 0x1c84: "\u0442", 0x1c85: "\u0442",
	0x1c86: "\u044a", 0x1c87: "\u0463", 0x1c88: "\ua64b", 0x1e96: "\u0068\u0331",
	0x1e97: "\u0074\u0308", 0x1e98: "\u0077\u030a", 0x1e99: "\u0079\u030a", 0x1e9a: "\u0061\u02be",
	0x1e9b: "\u1e61", 0x1e9e: "\u0073\u0073", 0x1f50: "\u03c5\u0313", 0x1f52: "\u03c5\u0313\u0300",
	0x1f54: "\u03c5\u0313\u0301", 0x1f56: "\u03c5\u0313\u0342", 0x1f80: "\u1f00\u03b9", 0x1f81: "\u1f01\u03b9",
	0x1f82: "\u1f02\u03b9", 0x1f83: "\u1f03\u03b9", 0x1f84: "\u1f04\u03b9", 0x1f85: "\u1f05\u03b9",
	0x1f86: "\u1f06\u03b9", 0x1f87: "\u1f07\u03b9", 0x1f88: "\u1f00\u03b9", 0x1f89: "\u1f01\u03b9",
	0x1f8a: "\u1f02\u03b9", 0x1f8b: "\u1f03\u03b9", 0x1f8c: "\u1f04\u03b9", 0x1f8d: "\u1f05\u03b9",
	0x1f8e: "\u1f06\u03b9", 0x1f8f: "\u1f07\u03b9", 0x1f90: "\u1f20\u03b9", 0x1f91: "\u1f21\u03b9",
	0x1f92: "\u1f22\u03b9", 0x1f93: "\u1f23\u03b9", 0x1f94: "\u1f24\u03b9", 0x1f95: "\u1f25\u03b9",
	0x1f96: "\u1f26\u03b9", 0x1f97: "\u1f27\u03b9", 0x1f98: "\u1f20\u03b9", 0x1f99: "\u1f21\u03b9",
	0x1f9a: "\u1f22\u03b9", 0x1f9b: "\u1f23\u03b9", 0x1f9c: "\u1f24\u03b9", 0x1f9d: "\u1f25\u03b9",
	0x1f9e: "\u1f26\u03b9", 0x1f9f: "\u1f27\u03b9", 0x1fa0: "\u1f60\u03b9", 0x1fa1: "\u1f61\u03b9",
	0x1fa2: "\u1f62\u03b9", 0x1fa3: "\u1f63\u03b9", 0x1fa4: "\u1f64\u03b9", 0x1fa5: "\u1f65\u03b9",
	0x1fa6: "\u1f66\u03b9", 0x1fa7: "\u1f67\u03b9", 0x1fa8: "\u1f60\u03b9", 0x1fa9: "\u1f61\u03b9",
	0x1faa: "\u1f62\u03b9", 0x1fab: "\u1f63\u03b9", 0x1fac: "\u1f64\u03b9", 0x1fad: "\u1f65\u03b9",
	0x1fae: "\u1f66\u03b9", 0x1faf: "\u1f67\u03b9", 0x1fb2: "\u1f70\u03b9", 0x1fb3: "\u03b1\u03b9",
	0x1fb4: "\u03ac\u03b9", 0x1fb6: "\u03b1\u0342", 0x1fb7: "\u03b1\u0342\u03b9", 0x1fbc: "\u03b1\u03b9",
	0x1fbe: "\u03b9", 0x1fc2: "\u1f74\u03b9", 0x1fc3: "\u03b7\u03b9", 0x1fc4: "\u03ae\u03b9",
	0x1fc6: "\u03b7\u0342", 0x1fc7: "\u03b7\u0342\u03b9", 0x1fcc: "\u03b7\u03b9", 0x1fd2: "\u03b9\u0308\u0300",
	0x1fd3: "\u03b9\u0308\u0301", 0x1fd6: "\u03b9\u0342", 0x1fd7: "\u03b9\u0308\u0342", 0x1fe2: "\u03c5\u0308\u0300",
	0x1fe3: "\u03c5\u0308\u0301", 0x1fe4: "\u03c1\u0313", 0x1fe6: "\u03c5\u0342", 0x1fe7: "\u03c5\u0308\u0342",
	0x1ff2: "\u1f7c\u03b9", 0x1ff3: "\u03c9\u03b9", 0x1ff4: "\u03ce\u03b9", 0x1ff6: "\u03c9\u0342",
	0x1ff7: "\u03c9\u0342\u03b9", 0x1ffc: "\u03c9\u03b9", 0xab70: "\u13a0", 0xab71: "\u13a1",
	0xab72: "\u13a2", 0xab73: "\u13a3", 0xab74: "\u13a4", 0xab75: "\u13a5",
	0xab76: "\u13a6", 0xab77: "\u13a7", 0xab78: "\u13a8", 0xab79: "\u13a9",
	0xab7a: "\u13aa", 0xab7b: "\u13ab", 0xab7c: "\u13ac", 0xab7d: "\u13ad",
	0xab7e: "\u13ae", 0xab7f: "\u13af", 0xab80: "\u13b0", 0xab81: "\u13b1",
	0xab82: "\u13b2", 0xab83: "\u13b3", 0xab84: "\u13b4", 0xab85: "\u13b5",
	0xab86: "\u13b6", 0xab87: "\u13b7", 0xab88: "\u13b8", 0xab89: "\u13b9",
	0xab8a: "\u13ba", 0xab8b: "\u13bb", 0xab8c: "\u13bc", 0xab8d: "\u13bd",
	0xab8e: "\u13be", 0xab8f: "\u13bf", 0xab90: "\u13c0", 0xab91: "\u13c1",
	0xab92: "\u13c2", 0xab93: "\u13c3", 0xab94: "\u13c4", 0xab95: "\u13c5",
	0xab96: "\u13c6", 0xab97: "\u13c7", 0xab98: "\u13c8", 0xab99: "\u13c9",
	0xab9a: "\u13ca", 0xab9b: "\u13cb", 0xab9c: "\u13cc", 0xab9d: "\u13cd",
	0xab9e: "\u13ce", 0xab9f: "\u13cf", 0xaba0: "\u13d0", 0xaba1: "\u13d1",
	0xaba2: "\u13d2", 0xaba3: "\u13d3", 0xaba4: "\u13d4", 0xaba5: "\u13d5",
	0xaba6: "\u13d6", 0xaba7: "\u13d7", 0xaba8: "\u13d8", 0xaba9: "\u13d9",
	0xabaa: "\u13da", 0xabab: "\u13db", 0xabac: "\u13dc", 0xabad: "\u13dd",
	0xabae: "\u13de", 0xabaf: "\u13df", 0xabb0: "\u13e0", 0xabb1: "\u13e1",
	0xabb2: "\u13e2", 0xabb3: "\u13e3", 0xabb4: "\u13e4", 0xabb5: "\u13e5",
	0xabb6: "\u13e6", 0xabb7: "\u13e7", 0xabb8: "\u13e8", 0xabb9: "\u13e9",
	0xabba: "\u13ea", 0xabbb: "\u13eb", 0xabbc: "\u13ec", 0xabbd: "\u13ed",
	0xabbe: "\u13ee", 0xabbf: "\u13ef", 0xfb00: "\u0066\u0066", 0xfb01: "\u0066\u0069",
	0xfb02: "\u0066\u006c", 0xfb03: "\u0066\u0066\u0069", 0xfb04: "\u0066\u0066\u006c", 0xfb05: "\u0073\u0074",
	0xfb06: "\u0073\u0074", 0xfb13: "\u0574\u0576", 0xfb14: "\u0574\u0565", 0xfb15: "\u0574\u056b",
	0xfb16: "\u057e\u0576", 0xfb17: "\u0574\u056d",
}

// cjkNumbers are the ideographs that have a numeric value.
//
//nolint:gochecknoglobals // a table that nothing changes
var cjkNumbers = runeSet(
	"\u3405\u3483\u382a\u3b4d\u4e00\u4e03\u4e07\u4e09\u4e5d\u4e8c\u4e94\u4e96\u4ebf\u4ec0\u4edf\u4ee8\u4f0d\u4f70" +
		"\u5104\u5146\u5169\u516b\u516d\u5341\u5343\u5344\u5345\u534c\u53c1\u53c2\u53c3\u53c4\u56db\u58f1\u58f9\u5e7a" +
		"\u5efe\u5eff\u5f0c\u5f0d\u5f0e\u5f10\u62fe\u634c\u67d2\u6f06\u7396\u767e\u8086\u842c\u8cae\u8cb3\u8d30\u9621" +
		"\u9646\u964c\u9678\u96f6\uf96b\uf973\uf978\uf9b2\uf9d1\uf9d3\uf9fd\U00020001\U00020064\U000200e2\U00020121" +
		"\U0002092a\U00020983\U0002098c\U0002099c\U00020aea\U00020afd\U00020b19\U00022390\U00022998\U00023b1b\U0002626d" +
		"\U0002f890",
)

// digitsExtra are the characters of category No that are digits.
//
//nolint:gochecknoglobals // a table that nothing changes
var digitsExtra = runeSet(
	"\u00b2\u00b3\u00b9\u1369\u136a\u136b\u136c\u136d\u136e\u136f\u1370\u1371\u19da\u2070\u2074\u2075\u2076\u2077" +
		"\u2078\u2079\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089\u2460\u2461\u2462\u2463\u2464\u2465" +
		"\u2466\u2467\u2468\u2474\u2475\u2476\u2477\u2478\u2479\u247a\u247b\u247c\u2488\u2489\u248a\u248b\u248c\u248d" +
		"\u248e\u248f\u2490\u24ea\u24f5\u24f6\u24f7\u24f8\u24f9\u24fa\u24fb\u24fc\u24fd\u24ff\u2776\u2777\u2778\u2779" +
		"\u277a\u277b\u277c\u277d\u277e\u2780\u2781\u2782\u2783\u2784\u2785\u2786\u2787\u2788\u278a\u278b\u278c\u278d" +
		"\u278e\u278f\u2790\u2791\u2792\U00010a40\U00010a41\U00010a42\U00010a43\U00010e60\U00010e61\U00010e62\U00010e63" +
		"\U00010e64\U00010e65\U00010e66\U00010e67\U00010e68\U00011052\U00011053\U00011054\U00011055\U00011056\U00011057" +
		"\U00011058\U00011059\U0001105a\U0001f100\U0001f101\U0001f102\U0001f103\U0001f104\U0001f105\U0001f106\U0001f107" +
		"\U0001f108\U0001f109\U0001f10a",
)
