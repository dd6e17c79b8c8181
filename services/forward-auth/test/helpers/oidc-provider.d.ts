declare module 'oidc-provider' {
  interface Grant {
    addResourceScope(resource: string, scope: string): void
  }
}
