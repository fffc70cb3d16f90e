package bedrock

import (
	"encoding/base64"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// The formats that the service takes, by media type; "" for others.

func imageFormat(media string) string {
	switch media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return strings.TrimPrefix(media, "image/")
	case "image/jpg":
		return "jpeg"
	default:
		return ""
	}
}

func documentFormat(media string) string {
	switch media {
	case "application/pdf":
		return "pdf"
	case "text/csv", "text/html":
		return strings.TrimPrefix(media, "text/")
	case "text/plain":
		return "txt"
	case "text/markdown":
		return "md"
	case "application/msword":
		return "doc"
	case "application/vnd.ms-excel":
		return "xls"
	case "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return "docx"
	case "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":
		return "xlsx"
	default:
		return ""
	}
}

func audioFormat(media string) string {
	switch media {
	case "audio/wav", "audio/mp3", "audio/aac", "audio/flac", "audio/ogg", "audio/opus", "audio/webm", "audio/m4a", "audio/mp4", "audio/pcm":
		return strings.TrimPrefix(media, "audio/")
	case "audio/x-wav":
		return "wav"
	case "audio/mpeg":
		return "mp3"
	case "audio/pcm16": // as OpenAI calls it
		return "pcm"
	default:
		return ""
	}
}

// mediaOf is the media type that a name's extension stands for; "" for unknown.
func mediaOf(name string) string {
	switch ext := strings.TrimPrefix(strings.ToLower(path.Ext(name)), "."); ext {
	case "png", "jpeg", "jpg", "gif", "webp":
		return "image/" + ext
	case "csv", "html":
		return "text/" + ext
	case "htm":
		return "text/html"
	case "txt":
		return "text/plain"
	case "md":
		return "text/markdown"
	case "pdf":
		return "application/pdf"
	case "doc":
		return "application/msword"
	case "xls":
		return "application/vnd.ms-excel"
	case "docx":
		return "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	case "xlsx":
		return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	default:
		return ""
	}
}

func (w *writer) image(field string, p *dialect.Part) *wireMedia {
	if d := p.Media.Detail; d != "" && d != "auto" {
		w.warn(field, "the service looks at images as closely as it likes")
	}
	return w.media(field, p, imageFormat, "images must be png, jpeg, gif or webp")
}

func (w *writer) audio(field string, p *dialect.Part) *wireMedia {
	return w.media(field, p, audioFormat, "the service doesn't take audio of this format")
}

func (w *writer) document(field string, p *dialect.Part) *wireMedia {
	m := w.media(field, p, documentFormat, "documents must be pdf, csv, doc, docx, xls, xlsx, html, txt or md")
	if m == nil {
		return nil
	}
	m.Name = w.documentName(p.Name)
	return m
}

// media is a block with content of its own, or in S3 where Options allow it: the service
// reads there as the gateway, not as the client. Other URLs the service doesn't fetch, and
// a gateway that did would be a way into its network.
func (w *writer) media(field string, p *dialect.Part, format func(media string) string, reason string) *wireMedia {
	kind, _, _ := strings.Cut(strings.ToLower(p.Media.Type), ";")
	kind = strings.TrimSpace(kind)
	if kind == "" { // by its name, then
		kind = mediaOf(p.Name)
	}
	if kind == "" {
		kind = mediaOf(p.Media.URL)
	}
	m := &wireMedia{Format: format(kind)}
	switch {
	case p.Media.URL == "":
		if _, err := base64.StdEncoding.DecodeString(p.Media.Data); err != nil {
			w.refuse(field, "the content must be base64")
		}
		m.Source.Bytes = p.Media.Data
	case w.mayRead(p.Media.URL):
		m.Source.S3 = &wireS3{URI: p.Media.URL}
	default:
		w.refuse(field, "nothing is fetched from URLs; send the content itself")
	}
	if m.Format == "" {
		w.refuse(field, reason)
	}
	return m
}

// mayRead reports whether clients may have the service read an object of S3. Keys with
// segments that some reader might take for a way up are nobody's.
func (w *writer) mayRead(url string) bool {
	for segment := range strings.SplitSeq(url, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return slices.ContainsFunc(w.s3, func(prefix string) bool { return strings.HasPrefix(url, prefix) })
}

// badPrefix reports whether a prefix is not that of a bucket or of a folder in one. One that
// ends within a name would be that of a neighbour, too.
func badPrefix(prefix string) bool {
	rest, ok := strings.CutPrefix(prefix, "s3://")
	return !ok || strings.HasPrefix(rest, "/") || !strings.HasSuffix(rest, "/")
}

// documentName is a name in the letters that the service takes, and each once: letters,
// digits, hyphens, brackets, single spaces.
func (w *writer) documentName(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-()[]", r):
			return r
		default:
			return ' '
		}
	}, name)
	clean = strings.Join(strings.Fields(clean), " ")
	if clean == "" {
		clean = "Document"
	}
	if len(clean) > 180 {
		clean = strings.TrimSpace(clean[:180])
	}
	unique := clean
	for n := 2; w.names[unique]; n++ {
		unique = clean + " " + strconv.Itoa(n)
	}
	if w.names == nil {
		w.names = map[string]bool{}
	}
	w.names[unique] = true
	return unique
}

// toolID is a call's id in the letters and the length that the service takes. Call and
// result get the same, and different ids stay different.
func toolID(id string) string {
	const most = 64
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if id != "" && len(id) <= most && strings.IndexFunc(id, bad) < 0 {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	clean := strings.Map(func(r rune) rune {
		if bad(r) {
			return '_'
		}
		return r
	}, id)
	sum := strconv.FormatUint(h.Sum64(), 16)
	if room := most - len(sum) - 1; len(clean) > room {
		clean = clean[:room]
	}
	return clean + "_" + sum
}
