package interop;

import javax.ws.rs.core.Application;
import javax.ws.rs.core.Link;
import javax.ws.rs.core.MediaType;
import javax.ws.rs.core.Response;
import javax.ws.rs.core.UriBuilder;
import javax.ws.rs.core.Variant;
import javax.ws.rs.ext.RuntimeDelegate;

/** Reads the Content-Type of a WebHDFS response, for which the client would need a whole web framework. */
public final class MediaTypes extends RuntimeDelegate implements RuntimeDelegate.HeaderDelegate<MediaType> {
  @Override
  public MediaType fromString(String value) {
    String[] parts = value.split(";")[0].trim().split("/");
    return new MediaType(parts[0], parts[1]);
  }

  @Override
  public String toString(MediaType value) {
    return value.getType() + "/" + value.getSubtype();
  }

  @Override
  @SuppressWarnings("unchecked")
  public <T> HeaderDelegate<T> createHeaderDelegate(Class<T> type) {
    return type == MediaType.class ? (HeaderDelegate<T>) this : null;
  }

  @Override
  public UriBuilder createUriBuilder() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Response.ResponseBuilder createResponseBuilder() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Variant.VariantListBuilder createVariantListBuilder() {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> T createEndpoint(Application application, Class<T> endpoint) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Link.Builder createLinkBuilder() {
    throw new UnsupportedOperationException();
  }
}
