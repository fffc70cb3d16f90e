package classify

import "bytes"

// The longest local part and domain that RFC 5321 allows.
const longestLocal, longestDomain = 64, 255

// email finds an address around the @ that is text[i:j].
func (s *scan) email(i, j int) int {
	start, ok := s.localPart(i)
	if !ok {
		return 0
	}
	end, ok := s.domain(j)
	if end > j {
		if from := s.credentials(i); from >= 0 {
			return s.hit(urlPassword, from, end)
		}
	}
	if !ok {
		return 0
	}
	if s.at(end) == ':' && (s.is(end+1, isLetter) || s.at(end+1) == '/') && string(s.text[start:i]) == "git" {
		return 0 // where a repository is
	}
	return s.hit(email, start, end)
}

// localPart returns where the local part that ends at i begins.
func (s *scan) localPart(i int) (start int, ok bool) {
	start = i
	for start > 0 && i-start < longestLocal && isLocal(s.text[start-1]) {
		start--
	}
	s.steps += i - start
	for start < i && (s.text[start] == '.' || s.text[start] == '-' || s.text[start] == '\'' || s.text[start] == '=' || s.text[start] == '/') {
		start++
	}
	if start < i {
		return start, s.text[i-1] != '.' && !bytes.Contains(s.text[start:i], []byte(".."))
	}
	// Of a name in another script the last byte is enough.
	if i > 0 && s.text[i-1] >= 0x80 {
		return i - 1, true
	}
	return i, i > 1 && s.text[i-1] == '"' && s.is(i-2, isWord) // a quoted one
}

func isLocal(c byte) bool {
	switch c {
	case '.', '-', '+', '\'', '=', '/', '!', '#', '$', '&', '*', '?', '^', '`', '{', '|', '}', '~':
		return true
	default:
		return classes[c]&isWord != 0
	}
}

// domain returns where the domain at j ends, and whether it is one that mail can
// be sent to: it has a dot, and ends with letters.
func (s *scan) domain(j int) (end int, ok bool) {
	i, label := j, j // label is where the last label begins
	dots := 0
	for ; i < len(s.text) && i-j < longestDomain; i++ {
		c := s.text[i]
		if c == '.' {
			if i == label || s.text[i-1] == '-' || !s.is(i+1, isWord) && s.at(i+1) < 0x80 {
				break
			}
			dots++
			label = i + 1
			continue
		}
		if classes[c]&(isDigit|isLetter) == 0 && c != '-' && c < 0x80 {
			break
		}
	}
	s.steps += i - j
	end = i
	if dots == 0 || s.at(j) == '-' {
		return end, false
	}
	last := label
	for last < i && s.is(last, isLetter) {
		last++
	}
	size := last - label
	if size == 0 && s.at(label) >= 0x80 {
		return end, true // a top level domain in another script
	}
	const shortest, longest = 2, 24
	if size < shortest || size > longest || s.is(last, isDigit|isUnder) || notDomain(s.text[label:last]) {
		return end, false
	}
	return end, true
}

// notDomain knows the endings of files and units that stand after an @ in names,
// such as icon@2x.png.
func notDomain(ending []byte) bool {
	const longest = 8
	if len(ending) > longest {
		return false
	}
	var lower [longest]byte
	for i, c := range ending {
		lower[i] = c | 0x20
	}
	switch string(lower[:len(ending)]) {
	case "png", "jpg", "jpeg", "gif", "svg", "webp", "bmp", "ico", "pdf", "css", "scss", "js", "jsx", "mjs", "ts", "tsx", "vue", "json",
		"xml", "html", "htm", "yml", "yaml", "toml", "txt", "csv", "log", "tgz", "gz", "tar", "whl", "jar", "exe", "dll", "service",
		"socket", "timer", "mount", "target", "slice", "scope", "java", "class", "cpp", "hpp", "go", "lock":
		return true
	default:
		return false
	}
}

// credentials returns where a URL with user and password begins whose @ is at i,
// -1 if there is none.
func (s *scan) credentials(i int) int {
	const longest = 128
	colon := -1
	for k := i - 1; k >= 0 && i-k <= longest; k-- {
		switch c := s.text[k]; {
		case c == '/' && k > 1 && s.text[k-1] == '/' && s.text[k-2] == ':':
			s.steps += i - k
			if colon > k && colon < i-1 && s.is(k-3, isLetter) && !placeholder(s.text[k+1:i]) {
				return k + 1
			}
			return -1
		case c <= ' ', c == '"', c == '\'', c == '<', c == '>', c == '@', c == '/', c == '?', c == '#':
			s.steps += i - k
			return -1
		case c == ':':
			colon = k
		default:
		}
	}
	s.steps += min(i, longest)
	return -1
}

// placeholder reports whether a text stands for a secret rather than being one:
// ${PASSWORD}, <password>, {{ .Pass }}, xxxx.
func placeholder(text []byte) bool {
	return bytes.ContainsAny(text, "${}<>") || bytes.Contains(text, []byte("xxx")) || bytes.Contains(text, []byte("***"))
}
