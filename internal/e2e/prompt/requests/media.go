package requests

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"
)

// picture is an image of one colour and one of a few sizes, as base64.
func (g *Generator) picture(encode func(*bytes.Buffer, image.Image)) string {
	width, height := pick(g, 56, 64, 100), pick(g, 56, 64, 140)
	img := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.RGBA{R: uint8(g.IntN(256)), A: 255}})
	var b bytes.Buffer
	encode(&b, img)
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func (g *Generator) png() string {
	return g.picture(func(b *bytes.Buffer, img image.Image) {
		_ = png.Encode(b, img) // into memory
	})
}

// frames are a video as a list of JPEGs, a form of data URL that vLLM has.
func (g *Generator) frames() string {
	var all []string
	one := g.picture(func(b *bytes.Buffer, img image.Image) {
		_ = jpeg.Encode(b, img, nil) // into memory
	})
	for range 4 {
		all = append(all, one)
	}
	return "data:video/jpeg;base64," + strings.Join(all, ",")
}

// mediaPart is a part of a chat message that is no text.
func (g *Generator) mediaPart() string {
	kind, url := "image_url", "data:image/png;base64,"+g.png()
	if g.Video && g.chance(20) {
		kind, url = "video_url", g.frames()
	}
	var source, p fields
	source.text("url", url)
	if g.chance(20) {
		source.text("detail", pick(g, "auto", "low", "high"))
	}
	p.text("type", kind)
	p.raw(kind, source.String())
	if g.chance(10) {
		p.raw("cache_control", `{"type":"ephemeral"}`)
	}
	return p.String()
}

// inputImage is an image of the responses API.
func (g *Generator) inputImage() string {
	var p fields
	p.text("type", "input_image")
	p.text("detail", "auto")
	p.text("image_url", "data:image/png;base64,"+g.png())
	return p.String()
}

// imageBlock is an image of the messages API.
func (g *Generator) imageBlock() string {
	var source, b fields
	if g.chance(50) {
		source.text("type", "base64")
		source.text("media_type", "image/png")
		source.text("data", g.png())
	} else {
		source.text("type", "url")
		source.text("url", "data:image/png;base64,"+g.png())
	}
	b.text("type", "image")
	b.raw("source", source.String())
	return b.String()
}

// orMedia makes a part that is no text in some cases, where there are media at all.
func (g *Generator) orMedia(part, media func() string) func() string {
	return func() string {
		if g.Media && g.chance(40) {
			return media()
		}
		return part()
	}
}
