import t from 'tap'
import { isPublicIssuer } from '../src/public-issuers.ts'

const GITHUB = 'https://token.actions.githubusercontent.com'

t.test('which issuers give anybody a token', async (t) => {
  const cases: [issuerUrl: string, isPublic: boolean][] = [
    [GITHUB, true],
    [`${GITHUB}/`, true],
    ['HTTPS://Token.Actions.GitHubUserContent.com', true],
    [`${GITHUB}/acme`, false],
    ['https://accounts.google.com', true],
    ['https://gitlab.com', true],
    ['https://id.twitch.tv/oauth2', true],
    ['https://www.linkedin.com/oauth', true],
    ['https://accounts.google.com.acme.example', false],
    ['https://gitlab.example.com', false],
    ['https://app.terraform.io', true],
    ['https://login.microsoftonline.com/common/v2.0', true],
    ['https://login.microsoftonline.com/organizations/v2.0/', true],
    ['https://login.microsoftonline.com/consumers', true],
    ['https://login.microsoftonline.com/common.example.com/v2.0', false],
    ['https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0', true],
    ['https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0', false],
    ['https://oidc.circleci.com/org/00000000-0000-0000-0000-000000000000', false],
    ['https://acme.eu.auth0.com/', false],
    ['https://id.example.com', false],
  ]
  for (const [issuerUrl, isPublic] of cases) t.equal(isPublicIssuer(issuerUrl), isPublic, issuerUrl)
})
