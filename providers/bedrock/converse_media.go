package bedrock

import (
	"encoding/base64"
	"hash/fnv"
	"path"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/dialect"
)

// The formats that the service takes, by media type.
var (
	imageFormats = map[string]string{
		"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp",
	}
	documentFormats = map[string]string{
		"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
		"application/msword":       "doc",
		"application/vnd.ms-excel": "xls",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
	}
	audioFormats = map[string]string{
		"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3", "audio/aac": "aac",
		"audio/flac": "flac", "audio/ogg": "ogg", "audio/opus": "opus", "audio/webm": "webm", "audio/m4a": "m4a",
		"audio/mp4": "mp4", "audio/pcm16": "pcm", "audio/pcm": "pcm",
	}
)

func (w *writer) image(field string, p *dialect.Part) *wireMedia {
	if d := p.Media.Detail; d != "" && d != "auto" {
		w.warn(field, "the service looks at images as closely as it likes")
	}
	return w.media(field, p, imageFormats, "images must be png, jpeg, gif or webp")
}

func (w *writer) audio(field string, p *dialect.Part) *wireMedia {
	return w.media(field, p, audioFormats, "the service doesn't take audio of this format")
}

func (w *writer) document(field string, p *dialect.Part) *wireMedia {
	m := w.media(field, p, documentFormats, "documents must be pdf, csv, doc, docx, xls, xlsx, html, txt or md")
	if m == nil {
		return nil
	}
	m.Name = w.documentName(p.Name)
	return m
}

// media is a block with content of its own, or in S3. Other URLs the service doesn't fetch,
// and a gateway that did would be a way into its network.
func (w *writer) media(field string, p *dialect.Part, formats map[string]string, reason string) *wireMedia {
	kind, _, _ := strings.Cut(strings.ToLower(p.Media.Type), ";")
	format := formats[strings.TrimSpace(kind)]
	if format == "" && kind == "" { // by its name, then
		format = formatOf(formats, p.Name)
		if format == "" {
			format = formatOf(formats, p.Media.URL)
		}
	}
	m := &wireMedia{Format: format}
	switch {
	case p.Media.URL == "":
		if _, err := base64.StdEncoding.DecodeString(p.Media.Data); err != nil {
			w.refuse(field, "the content must be base64")
		}
		m.Source.Bytes = p.Media.Data
	case strings.HasPrefix(p.Media.URL, "s3://"):
		m.Source.S3 = &wireS3{URI: p.Media.URL}
	default:
		w.refuse(field, "the service doesn't fetch URLs but s3; send the content itself")
	}
	if format == "" {
		w.refuse(field, reason)
	}
	return m
}

// formatOf goes by the extension of a name.
func formatOf(formats map[string]string, name string) string {
	ext := strings.TrimPrefix(strings.ToLower(path.Ext(name)), ".")
	switch ext {
	case "":
		return ""
	case "jpg":
		ext = "jpeg"
	case "htm":
		ext = "html"
	}
	for _, f := range formats {
		if f == ext {
			return f
		}
	}
	return ""
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
