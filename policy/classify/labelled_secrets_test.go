package classify

import (
	"encoding/base64"
	"fmt"
)

// assign puts a secret where secrets are.
func (g *gen) assign(secret string) string {
	return fmt.Sprintf(g.pick("%s", "export API_KEY=%s", `token: "%s"`, "Authorization: Bearer %s", "my key is %s, why does it fail?", `{"key":"%s"}`,
		"line one\\n%s\\nline two", "使用%s登录"), secret)
}

func (g *gen) secrets() {
	g.add("aws key id", g.assign(g.pick("AKIA", "ASIA")+g.of(upper+"234567", 16)), KindAWSKey)
	g.add("aws secret", "aws_secret_access_key"+g.pick("=", " = ", `": "`)+g.of(alnum+"/+", 40), KindAWSKey)
	g.add("github", g.assign(g.pick("ghp_", "gho_", "ghs_", "ghu_")+g.of(alnum, 36)), KindGitHub)
	g.add("github fine-grained", g.assign("github_pat_"+g.of(alnum, 22)+"_"+g.of(alnum, 59)), KindGitHub)
	g.add("gitlab", g.assign("glpat-"+g.of(alnum, 20)), KindGitLab)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	g.add("jwt", g.assign(part(`{"alg":"`+g.pick("HS256", "RS256", "ES256")+`","typ":"JWT"}`)+"."+part(`{"sub":"`+g.of(digits, 6)+`"}`)+"."+g.of(urlSafe, 43)), KindJWT)
	g.add("private key", "-----BEGIN "+g.pick("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")+"PRIVATE KEY-----\n"+g.of(alnum, 40)+"\n", KindPrivateKey)
	g.add("slack", g.assign(g.pick("xoxb-", "xoxp-")+g.of(digits, 11)+"-"+g.of(digits, 11)+"-"+g.of(alnum, 24)), KindSlack)
	g.add("google", g.assign("AIza"+g.of(urlSafe, 34)+"x"), KindGoogle)
	g.add("openai", g.assign(g.pick("sk-"+g.of(alnum, 48), "sk-proj-"+g.of(alnum, 70), "sk-"+g.of(hexes, 32))), KindOpenAI)
	g.add("anthropic", g.assign("sk-ant-api03-"+g.of(alnum, 90)+"-AA"), KindAnthropic)
	g.add("stripe", g.assign(g.pick("sk_live_", "sk_test_", "rk_live_")+g.of(alnum, 24)), KindStripe)
	g.add("hugging face", g.assign("hf_"+g.of(upper+lower, 34)), KindHuggingFace)
	g.add("npm", g.assign("npm_"+g.of(alnum, 36)), KindPackages)
	g.add("sendgrid", g.assign("SG."+g.of(alnum, 22)+"."+g.of(alnum, 43)), KindSendGrid)
	g.add("url password", g.pick("postgres://", "https://", "redis://", "amqp://")+g.of(lower, 5)+":"+g.of(alnum, 12)+"@db."+g.of(lower, 6)+".example:5432/x", KindURLPassword)
}
